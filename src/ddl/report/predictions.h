#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddl/report/run_view.h"

namespace ddl {

/// What was expected of a run before its first step, beside what its steps took. Milliseconds.
struct PredictionView {
  double step = 0, low = 0, high = 0;
  double measured = 0;
  double error_pct = 0;  ///< above 0: predicted slower than it was
  double waited = 0;     ///< share of the time in which others had the cores while the profile was measured
  std::vector<std::string> beyond = {};  ///< what of it lies outside of what was measured, a sentence each
};

/// Absent where nothing was predicted, or nothing measured.
std::optional<PredictionView> prediction_of(const RunView& run);

/// "lenet, 2 workers, shm: predicted 12.1 ms (11.0 to 13.2), measured 12.6 ms: -4.0 %".
std::string prediction_sentence(const RunView& run, const PredictionView& prediction);

/// "lenet, 2 workers, shm: collectives of 2 ranks over shm were not measured: …", for each that lies outside of what was measured.
std::vector<std::string> beyond_sentences(const RunView& run, const PredictionView& prediction);

/// `-4.0 %`.
std::string in_error(double percent);

}  // namespace ddl
