// What each worker did in one step: where a pipeline, and its bubbles, can be seen.
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/report/format.h"
#include "ddl/report/plot_data.h"
#include "ddl/report/plot_style.h"
#include "ddl/report/timeline_drawing.h"

namespace ddl {
namespace {

/// The step of the middle length among those measured, or among all where none was; and how many there are.
std::pair<int, std::size_t> typical_step(const TraceView& view, double warm_up) {
  // By the worker that takes longest: where nobody waits for the others a step begins on each at another time.
  std::map<int, Nanoseconds> lasted;
  for (const auto& [key, period] : view.steps) {
    auto& longest = lasted[key.first];
    longest = std::max(longest, period.end - period.begin);
  }
  std::set<int> told;
  for (const auto& each : view.spans) told.insert(each.span.step);
  std::vector<std::pair<Nanoseconds, int>> lengths;
  for (const bool measured : {true, false}) {
    for (const auto& [step, length] : lasted)
      if (told.contains(step) && (!measured || step >= warm_up)) lengths.emplace_back(length, step);
    if (!lengths.empty()) break;
  }
  // Of a record whose steps are not those of its spans nothing is known.
  if (lengths.empty()) return {*told.begin(), 1};
  std::sort(lengths.begin(), lengths.end());
  return {lengths[(lengths.size() - 1) / 2].second, lengths.size()};
}

std::vector<std::string> labels_of(const std::vector<Row>& rows) {
  std::vector<std::string> labels;
  for (const auto& row : rows) labels.push_back(row.label());
  return labels;
}

std::string expression_of_labels(const std::vector<std::string>& labels) {
  std::string list;
  for (const auto& label : labels) list += (list.empty() ? "'" : ",'") + label + "'";
  return "[" + list + "][floor(datum.value)]";
}

Json specification_of(const Drawing& drawing, const std::vector<std::string>& labels, const std::string& description) {
  const auto rows = static_cast<double>(labels.size());
  Json domain = Json::array(), range = Json::array(), ticks = Json::array();
  for (const auto& [word, colour] : kShades) {
    domain.push_back(word);
    range.push_back(colour);
  }
  for (std::size_t row = 0; row < labels.size(); ++row) ticks.push_back(static_cast<double>(row) + kComputeHeight / 2);
  Json x = channel("from", "quantitative", "ms");
  x["scale"] = {{"domain", {0, drawing.ms(drawing.end)}}, {"nice", false}};
  x["axis"] = {{"grid", false}};
  Json y = channel("top", "quantitative");
  y["scale"] = {{"domain", {0, rows}}, {"reverse", true}, {"nice", false}, {"zero", false}};
  y["axis"] = {{"values", ticks}, {"labelExpr", expression_of_labels(labels)}, {"grid", false}, {"ticks", false}, {"domain", false}};
  auto out = plot_base(40 + (labels.size() > 8 ? 30 : 46) * labels.size(), description);
  Json layers = Json::array();
  layers.push_back({{"data", {{"values", drawing.rectangles}}},
                    {"mark", {{"type", "rect"}, {"stroke", "var(--surface)"}, {"strokeWidth", 0.5}}},
                    {"encoding",
                     {{"x", x},
                      {"x2", {{"field", "to"}}},
                      {"y", y},
                      {"y2", {{"field", "bottom"}}},
                      {"color", {{"field", "kind"}, {"type", "nominal"}, {"scale", {{"domain", domain}, {"range", range}}}, {"legend", nullptr}}},
                      {"fillOpacity", {{"field", "opacity"}, {"type", "quantitative"}, {"scale", nullptr}}},
                      {"tooltip", tooltip({{"worker", "worker"}, {"step", "step"}, {"kind", "kind"}, {"task", "task"}, {"said", "time"}})}}}});
  if (!drawing.numbers.empty()) {
    Json at = x, row = y;
    at["field"] = "at";
    row["field"] = "y";
    layers.push_back({{"data", {{"values", drawing.numbers}}},
                      {"mark", {{"type", "text"}, {"fontSize", 11}, {"fontWeight", "bold"}, {"baseline", "middle"}}},
                      {"encoding",
                       {{"x", at}, {"y", row}, {"text", {{"field", "number"}, {"type", "nominal"}}}, {"color", {{"field", "ink"}, {"type", "nominal"}, {"scale", nullptr}, {"legend", nullptr}}}}}});
  }
  if (!drawing.borders.empty()) {
    Json at = x;
    at["field"] = "at";
    layers.push_back({{"data", {{"values", drawing.borders}}},
                      {"mark", {{"type", "rule"}, {"strokeWidth", 2.5}, {"color", "var(--text)"}}},
                      {"encoding", {{"x", at}, {"y", y}, {"y2", {{"field", "bottom"}}}, {"tooltip", tooltip({{"said", "border"}})}}}});
  }
  out["layer"] = layers;
  return out;
}

}  // namespace

Plot timeline_plot(const RunView& run) {
  Plot plot;
  if (!run.ok() || !run.record) return plot;
  const auto whole = view_trace(*run.record);
  if (whole.empty()) return plot;
  const auto [step, steps] = typical_step(whole, number_at(*run.record, {"samples", "warmup_steps"}).value_or(0));
  const auto window = window_of(whole, step);
  const auto view = within(whole, window);
  const bool numbered = number_at(*run.record, {"plan", "micro_batches"}).value_or(1) > 1;
  const auto rows = rows_of(view);
  const auto drawing = draw(view, window, rows.shown, numbered);
  if (drawing.rectangles.empty()) return plot;

  // Runs outside of a study are called alike, whatever their strategy.
  const auto strategy = text_at(*run.record, {"config", "strategy"});
  plot.title = fmt::format("{}{}: a step, worker by worker", run.label, strategy.empty() || run.label.find(strategy) != std::string::npos ? "" : ", " + strategy);
  for (const auto& [word, colour] : kShades)
    if (drawing.shades.contains(word)) plot.legend.push_back({word, colour, "square"});
  plot.note = fmt::format("Step {}{}.", step, steps > 1 ? fmt::format(", the one of middle length among the {} that were traced", steps) : "");
  if (window.rank >= 0) plot.note += fmt::format(" Workers were at it at different times: shown is rank {}'s time of it, and what the others did meanwhile.", window.rank);
  if (!drawing.borders.empty()) plot.note += " A dark line is where a worker's step begins; before it stands the end of its last.";
  const auto ranks = view.ranks().size();
  const bool served = std::any_of(rows.shown.begin(), rows.shown.end(), [](const Row& row) { return row.serves; });
  if (ranks > 1) plot.note += " Above, what a worker computed; the thin row below, when its bytes moved.";
  if (served) plot.note += " A server has a row of its own: above its updates, below its bytes.";
  plot.note += fmt::format(" What is blank is {}.{}", served ? "the ledger's residual, or a server without work" : "the ledger's residual",
                           numbered ? " Numbers are micro-batches; a worker's further stages are paler." : "");
  if (rows.stride > 1) plot.note += fmt::format(" Of {} workers {} are shown, evenly picked.", ranks, (ranks + rows.stride - 1) / rows.stride);
  if (drawing.rectangles.size() >= kRectangles) plot.note += fmt::format(" Only the first {} pieces are drawn; an export has all.", kRectangles);
  plot.description = fmt::format("{}. {} {}", plot.title, plot.note, bubble_words(run));
  plot.specification = specification_of(drawing, labels_of(rows.shown), plot.description);
  return plot;
}

std::string bubble_words(const RunView& run) {
  const auto ideal = run.record ? number_at(*run.record, {"plan", "bubble", "ideal"}) : std::nullopt;
  if (!ideal || !run.has_ledger() || !(run.mean_wall_ms() > 0)) return "";
  const auto share = [&](Cause cause) { return in_percent(run.mean_ms(cause) / run.mean_wall_ms()); };
  const auto micro = number_at(*run.record, {"plan", "micro_batches"}).value_or(1), workers = number_at(*run.record, {"plan", "bubble", "workers"}).value_or(run.workers);
  const auto* told = find_at(*run.record, {"plan", "bubble", "exact"});
  const bool exact = !told || !told->is_boolean() || told->get<bool>();
  return fmt::format("The bubble of {} with {} over {} is {}{} of a step, were all stages equal and messages free; measured: {} bubble, {} waiting for a late worker, {} exposed communication.",
                     text_at(*run.record, {"plan", "bubble", "schedule"}), fmt::format("{:.0f} micro-batch{}", micro, micro == 1 ? "" : "es"), counted(static_cast<long long>(workers), "worker"),
                     exact ? "" : "at least ", in_percent(*ideal), share(Cause::bubble), share(Cause::wait), share(Cause::communication));
}

}  // namespace ddl
