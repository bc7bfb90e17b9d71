#include "ddl/report/table.h"

#include <algorithm>

#include <fmt/format.h>

#include "ddl/core/units.h"
#include "ddl/report/comparison.h"
#include "ddl/report/format.h"
#include "ddl/report/precision.h"
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
  return {run.label,
          run.workers > 0 ? std::to_string(run.workers) : kUnknown,
          run.throughput ? in_figures(run.throughput->median) : kUnknown,
          run.speedup ? in_times(*run.speedup) : kUnknown,
          run.efficiency ? in_percent(*run.efficiency) : kUnknown,
          exposed ? in_percent(*exposed) : kUnknown,
          memory ? to_string(Bytes{static_cast<std::int64_t>(*memory)}) : kUnknown,
          accuracy_text(run),
          run.state.empty() ? "unknown" : run.state};
}

std::string render_table(const std::vector<Json>& records) {
  auto views = view_runs(records);
  compare(views);
  if (views.empty()) return "no runs\n";
  std::vector<std::array<std::string, kColumns>> lines(2);
  for (std::size_t c = 0; c < kColumns; ++c) {
    lines[0][c] = columns()[c].title;
    lines[1][c] = columns()[c].unit;
  }
  for (const auto& view : views) {
    lines.push_back(cells(view));
    // Brackets keep the interval apart from its neighbours where a terminal has no rules between columns.
    if (const auto interval = interval_text(view); !interval.empty()) lines.back()[2] += " [" + interval + "]";
  }
  std::array<std::size_t, kColumns> widths{};
  for (const auto& line : lines)
    for (std::size_t c = 0; c < kColumns; ++c) widths[c] = std::max(widths[c], display_width(line[c]));

  std::string out;
  for (std::size_t l = 0; l < lines.size(); ++l) {
    std::string line;
    for (std::size_t c = 0; c < kColumns; ++c)
      line += (c > 0 ? "  " : "") + padded(lines[l][c], widths[c], columns()[c].is_number);
    out += trimmed(line);
    if (l == 1) {
      std::size_t width = 2 * (kColumns - 1);
      for (const auto w : widths) width += w;
      out += std::string(width, '-') + "\n";
    }
    if (l >= 2 && !views[l - 2].ok() && !views[l - 2].reason.empty()) out += "    " + views[l - 2].reason + "\n";
  }
  return out;
}

std::string render_where_time_went(const std::vector<Json>& records) {
  std::string out;
  for (const auto& view : view_runs(records)) out += where_time_went(view) + "\n";
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
