#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"

namespace ddl {

/// Whether runs at different global batches are compared with one another. A larger batch does more work in a step, and learns differently:
/// they stand apart, in tables and figures, unless that was asked for.
enum class Batches { apart, together };

/// One offline HTML page over run records (docs/record.md), newest study first: the table, the scaling plot, the
/// ledger as stacked bars per worker, loss and accuracy curves, step times, the environment, every record for download.
/// It makes no network request: Vega-Lite is embedded.
/// `explanations`: what explain says of some of the runs (ddlbench.explain/1), and a note on those that it was not asked of.
std::string render_report(const std::vector<Json>& records, Batches batches = Batches::apart, const std::vector<Json>& explanations = {}, const std::string& explanations_note = "");

/// The same table as plain text for a terminal: a row per record, fixed columns: case, workers, samples/s with
/// interval, speed-up and efficiency (against the one-worker record of the same model, data set and global batch),
/// exposed communication (communication + wait, share of the step), how far off the prediction was, peak memory per worker, accuracy, state. Where global batches differ, a
/// heading over those of each, and a sentence.
std::string render_table(const std::vector<Json>& records, Batches batches = Batches::apart);

/// Where the time went, a line per record, in words with percentages: what dominates each worker's ledger, and what
/// the communication costs.
std::string render_where_time_went(const std::vector<Json>& records);

/// What was predicted of a run before it began, and how far off that was, a line for each that has both; empty without any.
std::string render_predictions(const std::vector<Json>& records);

/// What other precisions reach beside fp32, a line each; empty where there are not both.
std::string render_precisions(const std::vector<Json>& records);

/// How stale the gradients were that servers of parameters applied as they came, a line per such record; empty without any.
std::string render_staleness(const std::vector<Json>& records);

/// A page about a document `ddlbench.probe/1` (docs/machine.md): time over size for every transport and collective, what was
/// measured as marks with intervals, what was fitted as lines, the bound below them; the table; the fitted costs.
std::string render_probe(const Json& document);

}  // namespace ddl
