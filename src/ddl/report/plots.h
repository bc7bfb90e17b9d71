#pragma once

#include <string>
#include <vector>

#include "ddl/report/comparison.h"

namespace ddl {

struct LegendEntry {
  std::string label, colour, shape;   ///< shape as Vega names it, or "line" or "dashes"
};

/// A Vega-Lite specification without colours of its own: page.css holds them as variables, so that a dark scheme and
/// the printer need no second plot. The specification is null where the records hold nothing for it.
struct Plot {
  std::string title;
  std::string description;   ///< for those who cannot see it, and the plot's aria-label
  std::string note;          ///< what a reader must know of how it was made
  std::vector<LegendEntry> legend;
  Json specification;

  bool present() const { return !specification.is_null(); }
};

/// Throughput over workers, with 95 % intervals and the line of perfect scaling. A line joins runs that differ in their number of workers alone.
Plot scaling_plot(const RunGroup& group);
/// ms per step by cause, a stacked bar per worker.
Plot ledger_plot(const RunGroup& group);
/// Training loss over steps, or over epochs where no steps were kept.
Plot loss_plot(const RunGroup& group);
Plot accuracy_plot(const RunGroup& group);
Plot step_series_plot(const RunGroup& group);
Plot step_distribution_plot(const RunGroup& group);

/// A row for each run that was predicted: the prediction with its interval, and what was measured.
Plot prediction_plot(const RunGroup& group);

/// One step of one run, the traced one of middle length: a row for each worker, what it did from left to right, cut as the ledger is, and below it
/// when its bytes moved; a row for each server. Numbers in the rectangles are micro-batches.
Plot timeline_plot(const RunView& run);
/// Of a pipeline, its schedule's ideal bubble beside the one measured; else empty.
std::string bubble_words(const RunView& run);

/// Causes that took time in any run, in the ledger's order.
std::vector<Cause> causes_present(const std::vector<RunGroup>& groups);
std::string cause_colour(Cause cause);

}  // namespace ddl
