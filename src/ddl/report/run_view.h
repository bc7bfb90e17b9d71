#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/core/statistics.h"
#include "ddl/measure/trace.h"

namespace ddl {

/// What a record says at a path of keys; absent where a key is missing, null, or of another type. Records come from
/// other versions and other subjects too, so nothing here throws.
const Json* find_at(const Json& record, std::initializer_list<std::string_view> path);
std::string text_at(const Json& record, std::initializer_list<std::string_view> path);
std::optional<double> number_at(const Json& record, std::initializer_list<std::string_view> path);
/// null becomes NaN, so that places keep their meaning.
std::vector<double> numbers_at(const Json& record, std::initializer_list<std::string_view> path);
/// Any scalar as a person would read it: no quotes around text, `-` for null; objects and arrays as JSON.
std::string as_text(const Json& value);

struct RankView {
  int rank = 0;
  std::string device;
  std::optional<double> peak_memory;                   ///< bytes
  std::optional<double> wall_ms;                       ///< per step
  std::array<std::optional<double>, kCauses> ledger;   ///< ms per step
  std::optional<double> overlapped_ms;

  double operator[](Cause cause) const { return ledger[static_cast<std::size_t>(cause)].value_or(0); }
  /// wall_ms, or the sum of the causes; 0 where nothing is known.
  double total_ms() const;
};

/// Something by which runs differ, and how it is said: {"strategy", "pipeline[micro=4]"}, {"batch", "batch 64"}.
struct Trait {
  std::string key, words;
};

/// One record, as far as tables, words and plots need it.
struct RunView {
  const Json* record = nullptr;   ///< must outlive the view
  std::string id, state, reason, subject, study, name, model, dataset, batch, transport, started;
  std::string likeness;  ///< what else must be equal for two runs to have done the same work: precision, kernels, …
  int workers = 0;                ///< 0 where it is not known
  std::optional<double> batch_per_worker;
  std::optional<Interval> throughput;
  std::optional<double> accuracy, step_ms;  ///< accuracy: of samples, or of words
  std::optional<double> bleu;            ///< 0 … 100
  std::vector<RankView> ranks;

  std::vector<Trait> traits;
  std::string label;              ///< the case, with what else tells it from the other views; unique among them
  std::string series;             ///< the label without the model, for plots of one model

  // Set by compare(), which keeps no view that moves afterwards.
  const RunView* baseline = nullptr;   ///< the one-worker run that the speed-up is over
  std::optional<double> speedup, speedup_low, speedup_high, efficiency;

  bool ok() const { return state == "ok"; }
  bool has_ledger() const;
  /// communication + wait, as a share of all workers' wall time.
  std::optional<double> exposed_share() const;
  /// Of the worker that needed most. Bytes.
  std::optional<double> peak_memory() const;
  /// Mean over the workers. ms per step.
  double mean_ms(Cause cause) const;
  double mean_wall_ms() const;
  double mean_overlapped_ms() const;
};

/// Views in the order of the report: newest study first, within a study by start.
std::vector<RunView> view_runs(const std::vector<Json>& records);

}  // namespace ddl
