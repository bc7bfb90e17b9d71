#include "ddl/report/table.h"

#include <algorithm>

#include <fmt/format.h>

#include "ddl/core/units.h"
#include "ddl/report/comparison.h"
#include "ddl/report/format.h"
#include "ddl/report/precision.h"
#include "ddl/report/predictions.h"
#include "ddl/report/staleness.h"
#include "ddl/report/report.h"
#include "ddl/report/words.h"

namespace ddl {
namespace {

constexpr const char* kUnknown = "-";

std::string padded(const std::string& text, std::size_t width, bool to_the_right) {
  const std::string blanks(width - std::min(width, display_width(text)), ' ');
  return to_the_right ? blanks + text : text + blanks;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

using Cells = std::array<std::string, kColumns>;

struct Row {
  Cells cells{};
  std::string heading, reason;  ///< a heading has no cells; a reason stands below them
};

Cells titles(std::string_view Column::*part) {
  Cells all;
  for (std::size_t c = 0; c < kColumns; ++c) all[c] = columns()[c].*part;
  return all;
}

std::string aligned(const Cells& cells, const std::array<std::size_t, kColumns>& widths) {
  std::string line;
  for (std::size_t c = 0; c < kColumns; ++c) line += (c > 0 ? "  " : "") + padded(cells[c], widths[c], columns()[c].is_number);
  return trimmed(line);
}

std::string accuracy_text(const RunView& run) {
  if (!run.accuracy) return kUnknown;
  return fmt::format("{:.1f} %", 100 * *run.accuracy) + (run.bleu ? fmt::format(", BLEU {:.1f}", *run.bleu) : "");
}

}  // namespace

const std::array<Column, kColumns>& columns() {
  static constexpr std::array<Column, kColumns> kTable{{{"case", "", false},
                                                        {"workers", ""},
                                                        {"samples/s", "95 % interval"},
                                                        {"speed-up", "vs 1 worker"},
                                                        {"efficiency", ""},
                                                        {"exposed comm.", "of a step"},
                                                        {"predicted", "off by"},
                                                        {"peak memory", "per worker"},
                                                        {"accuracy", "test set"},
                                                        {"state", "", false}}};
  return kTable;
}

std::string interval_text(const RunView& run) {
  if (!run.throughput || run.throughput->low == run.throughput->high) return "";
  return fmt::format("{} to {}", in_figures(run.throughput->low), in_figures(run.throughput->high));
}

std::array<std::string, kColumns> cells(const RunView& run) {
  const auto exposed = run.exposed_share();
  const auto memory = run.peak_memory();
  const auto prediction = prediction_of(run);
  return {run.label,
          run.workers > 0 ? std::to_string(run.workers) : kUnknown,
          run.throughput ? in_figures(run.throughput->median) : kUnknown,
          run.speedup ? in_times(*run.speedup) : kUnknown,
          run.efficiency ? in_percent(*run.efficiency) : kUnknown,
          exposed ? in_percent(*exposed) : kUnknown,
          prediction ? in_error(prediction->error_pct) : kUnknown,
          memory ? to_string(Bytes{static_cast<std::int64_t>(*memory)}) : kUnknown,
          accuracy_text(run),
          run.state.empty() ? "unknown" : run.state};
}

std::string render_table(const std::vector<Json>& records, Batches batches) {
  auto views = view_runs(records);
  compare(views, batches);
  if (views.empty()) return "no runs\n";
  const auto groups = group_runs(views, batches);
  std::vector<Row> rows{{titles(&Column::title)}, {titles(&Column::unit)}};
  for (const auto& [heading, runs] : sections(groups)) {
    if (!heading.empty()) rows.push_back({{}, heading});
    for (const auto* run : runs) {
      rows.push_back({cells(*run), "", run->ok() ? "" : run->reason});
      // Brackets keep the interval apart from its neighbours where a terminal has no rules between columns.
      if (const auto interval = interval_text(*run); !interval.empty()) rows.back().cells[2] += " [" + interval + "]";
    }
  }
  std::array<std::size_t, kColumns> widths{};
  for (const auto& row : rows)
    for (std::size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], display_width(row.cells[c]));
  std::size_t width = 2 * (kColumns - 1);
  for (const auto w : widths) width += w;

  std::string out;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    out += rows[r].heading.empty() ? aligned(rows[r].cells, widths) : rows[r].heading + ":\n";
    if (r == 1) out += std::string(width, '-') + "\n";
    if (!rows[r].reason.empty()) out += "    " + rows[r].reason + "\n";
  }
  const auto note = batches_note(groups);
  return out + (note.empty() ? "" : note + "\n");
}

std::string render_where_time_went(const std::vector<Json>& records) {
  std::string out;
  for (const auto& view : view_runs(records)) out += where_time_went(view) + "\n";
  return out;
}

std::string render_staleness(const std::vector<Json>& records) {
  std::string out;
  for (const auto& view : view_runs(records))
    if (const auto staleness = staleness_of(view)) out += staleness_sentence(view, *staleness) + "\n";
  return out;
}

std::string render_precisions(const std::vector<Json>& records) {
  const auto views = view_runs(records);
  std::string out;
  for (const auto& group : group_runs(views))
    for (const auto& sentence : precision_findings(group)) out += sentence + "\n";
  return out;
}

}  // namespace ddl
