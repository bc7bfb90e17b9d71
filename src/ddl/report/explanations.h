#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddl/report/comparison.h"
#include "ddl/report/plots.h"

namespace ddl {

/// A part of what a run's speed-up is short of ideal, in times one worker.
struct LossPart {
  std::string cause, words;
  double lost = 0;                              ///< below 0: won
  std::optional<double> step_ms, gain_ms;       ///< without that cause alone, by the simulator
  std::optional<double> speedup;
};

/// What `explain` says of a run: a document ddlbench.explain/1 (docs/explain.md), as far as the page shows it.
struct ExplanationView {
  std::string words;
  double workers = 0, speedup = 0, not_explained = 0;   ///< workers 0: nothing is known of the loss
  std::vector<LossPart> parts;                          ///< the largest loss first
  /// By the ledger's term: predicted and measured, ms a step. Empty where nothing was predicted.
  std::vector<std::array<double, 2>> terms;
  std::optional<double> predicted_ms, low_ms, high_ms, measured_ms;
};

/// Of the run with that id; absent where there is none.
std::optional<ExplanationView> explanation_of(const std::vector<Json>& documents, const RunView& run);

/// The colour of a cause of loss, and of what was reached or is not explained.
std::string loss_colour(const std::string& cause);
/// Causes that some run loses or wins by, as explain lists them, each once; with its words.
std::vector<std::pair<std::string, std::string>> losses_present(const std::vector<ExplanationView>& all);

/// A bar for each run of several workers: the speed-up that was reached, then what each cause took of the ideal one. The parts sum to the number of workers.
Plot why_plot(const RunGroup& group, const std::vector<Json>& documents);

}  // namespace ddl
