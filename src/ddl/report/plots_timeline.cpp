// What each worker did in one step: where a pipeline, and its bubbles, can be seen.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "ddl/core/text.h"
#include "ddl/report/format.h"
#include "ddl/report/plot_data.h"
#include "ddl/report/plot_style.h"
#include "ddl/report/trace_view.h"

namespace ddl {
namespace {

/// More rows of one run than this are not read one by one.
constexpr std::size_t kRows = 16;
/// Rectangles of one run: a page of many runs stays one that opens.
constexpr std::size_t kRectangles = 4000;
/// Of the plot's width: a two-digit number fits from here on.
constexpr double kRoomForNumber = 0.016;
// Of a worker's row, which is 1 high: compute, and below it, thin, communication.
constexpr double kComputeHeight = 0.66, kCommunicationTop = 0.7, kCommunicationHeight = 0.14;

/// What rectangles are coloured by, in the order of the legend.
struct Shade {
  const char* word;
  const char* colour;
};
constexpr std::array kShades{Shade{"load", "var(--cause-load)"},           Shade{"copy", "var(--cause-copy)"},
                             Shade{"forward", "var(--cause-forward)"},     Shade{"backward", "var(--cause-backward)"},
                             Shade{"weight gradient", "var(--cause-weight)"}, Shade{"update", "var(--cause-update)"},
                             Shade{"communication", "var(--cause-communication)"}, Shade{"wait", "var(--cause-wait)"},
                             Shade{"bubble", "var(--cause-bubble)"},       Shade{"harness", "var(--cause-harness)"}};

std::string shade_of(const Span& piece, const TaskView& task) {
  return task.kind == "backward_weight" ? "weight gradient" : std::string(name(piece.cause));
}

/// The step of the middle length among those measured, or among all where none was; and how many there are.
std::pair<int, std::size_t> typical_step(const TraceView& view, double warm_up) {
  std::map<int, Period> lasted;
  for (const auto& [key, period] : view.steps) {
    const auto [place, fresh] = lasted.try_emplace(key.first, period);
    place->second = {std::min(place->second.begin, period.begin), std::max(place->second.end, period.end)};
  }
  std::set<int> told;
  for (const auto& each : view.spans) told.insert(each.span.step);
  std::vector<std::pair<Nanoseconds, int>> lengths;
  for (const bool measured : {true, false}) {
    for (const auto& [step, period] : lasted)
      if (told.contains(step) && (!measured || step >= warm_up)) lengths.emplace_back(period.end - period.begin, step);
    if (!lengths.empty()) break;
  }
  std::sort(lengths.begin(), lengths.end());
  return {lengths[(lengths.size() - 1) / 2].second, lengths.size()};
}

struct Drawing {
  Nanoseconds begin = 0, end = 0;  ///< of the step, over all workers
  Json rectangles = Json::array();
  Json numbers = Json::array();
  std::set<std::string> shades;

  double ms(Nanoseconds time) const { return static_cast<double>(time - begin) * 1e-6; }

  void add(const Period& when, double top, double height, const std::string& shade, const std::string& task, const std::string& worker, double opacity) {
    if (rectangles.size() >= kRectangles) return;
    shades.insert(shade);
    rectangles.push_back({{"from", ms(when.begin)}, {"to", ms(when.end)}, {"top", top}, {"bottom", top + height}, {"kind", shade}, {"task", task},
                          {"worker", worker}, {"opacity", opacity}, {"said", in_ms(static_cast<double>(when.end - when.begin) * 1e-6)}});
  }
};

/// A worker's further stages are drawn paler: its chunks are told apart by that.
double opacity_of(const std::vector<int>& stages, int stage) {
  const auto place = std::find(stages.begin(), stages.end(), stage);
  if (place == stages.end() || stages.size() < 2) return 1;
  return 1 - 0.45 * static_cast<double>(place - stages.begin()) / static_cast<double>(stages.size() - 1);
}

void draw_worker(Drawing& drawing, const TraceView& view, const Trace& spans, const Arrivals& arrivals, int step, int rank, std::size_t row, bool numbered) {
  std::map<int, const TracedSpan*> tasks;
  std::set<int> seen;
  for (const auto& each : view.spans)
    if (each.span.step == step && each.span.worker == rank && each.span.task >= 0) {
      tasks[each.span.task] = &each;
      if (computes(each.span.cause) && each.task.micro_batch >= 0) seen.insert(each.task.stage);
    }
  const std::vector<int> stages{seen.begin(), seen.end()};
  const auto worker = fmt::format("rank {}", rank);
  const auto top = static_cast<double>(row);
  static const TaskView kNothing;
  const auto task_of = [&](const Span& span) { return tasks.contains(span.task) ? tasks.at(span.task) : nullptr; };
  for (const auto& piece : flatten(spans, rank, drawing.begin, drawing.end, arrivals)) {
    const auto* of = task_of(piece);
    const auto& task = of ? of->task : kNothing;
    const auto shade = shade_of(piece, task);
    const double opacity = computes(piece.cause) ? opacity_of(stages, task.stage) : 1;
    drawing.add({piece.begin, piece.end}, top, kComputeHeight, shade, of ? of->name : shade, worker, opacity);
    const bool room = static_cast<double>(piece.end - piece.begin) >= kRoomForNumber * static_cast<double>(drawing.end - drawing.begin);
    // Through what is pale the page shows, light or dark: the page's own ink can be read on it.
    if (numbered && room && computes(piece.cause) && task.micro_batch >= 0)
      drawing.numbers.push_back({{"at", (drawing.ms(piece.begin) + drawing.ms(piece.end)) / 2}, {"y", top + kComputeHeight / 2}, {"number", std::to_string(task.micro_batch)},
                                 {"ink", opacity < 0.8 ? "var(--text)" : piece.cause == Cause::forward ? "var(--on-light)" : "var(--on-dark)"}});
  }
  for (const auto& span : spans) {
    if (span.worker != rank || span.stream != Stream::communication) continue;
    const Period when{std::max({span.begin, arrivals.of(span).value_or(span.begin), drawing.begin}), std::min(span.end, drawing.end)};
    const auto* of = task_of(span);
    if (when.begin < when.end)
      drawing.add(when, top + kCommunicationTop, kCommunicationHeight, "communication", of ? of->name : std::string(name(span.cause)), worker, 1);
  }
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
  Json x = channel("from", "quantitative", "ms since the step began");
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
                      {"tooltip", tooltip({{"worker", "worker"}, {"kind", "kind"}, {"task", "task"}, {"said", "time"}})}}}});
  if (!drawing.numbers.empty()) {
    Json at = x, row = y;
    at["field"] = "at";
    row["field"] = "y";
    layers.push_back({{"data", {{"values", drawing.numbers}}},
                      {"mark", {{"type", "text"}, {"fontSize", 11}, {"fontWeight", "bold"}, {"baseline", "middle"}}},
                      {"encoding",
                       {{"x", at}, {"y", row}, {"text", {{"field", "number"}, {"type", "nominal"}}}, {"color", {{"field", "ink"}, {"type", "nominal"}, {"scale", nullptr}, {"legend", nullptr}}}}}});
  }
  out["layer"] = layers;
  return out;
}

}  // namespace

Plot timeline_plot(const RunView& run) {
  Plot plot;
  if (!run.ok() || !run.record) return plot;
  const auto view = view_trace(*run.record);
  if (view.empty()) return plot;
  const auto warm_up = number_at(*run.record, {"samples", "warmup_steps"}).value_or(0);
  const auto [step, steps] = typical_step(view, warm_up);
  const auto spans = view.trace(step);
  const Arrivals arrivals(spans);
  const auto ranks = view.ranks();

  Drawing drawing;
  bool any = false;
  for (const auto& [key, period] : view.steps) {
    if (key.first != step) continue;
    drawing.begin = any ? std::min(drawing.begin, period.begin) : period.begin;
    drawing.end = any ? std::max(drawing.end, period.end) : period.end;
    any = true;
  }
  const std::size_t stride = (ranks.size() + kRows - 1) / kRows;
  const bool numbered = number_at(*run.record, {"plan", "micro_batches"}).value_or(1) > 1;
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < ranks.size(); i += stride) {
    draw_worker(drawing, view, spans, arrivals, step, ranks[i], labels.size(), numbered);
    labels.push_back(fmt::format("rank {}", ranks[i]));
  }
  if (drawing.rectangles.empty()) return plot;

  // Runs outside of a study are called alike, whatever their strategy.
  const auto strategy = text_at(*run.record, {"config", "strategy"});
  plot.title = fmt::format("{}{}: a step, worker by worker", run.label, strategy.empty() || run.label.find(strategy) != std::string::npos ? "" : ", " + strategy);
  for (const auto& [word, colour] : kShades)
    if (drawing.shades.contains(word)) plot.legend.push_back({word, colour, "square"});
  plot.note = fmt::format("Step {}{}.{} What is blank is the ledger's residual.{}", step, steps > 1 ? fmt::format(", the one of middle length among the {} that were traced", steps) : "",
                          ranks.size() > 1 ? " Above, what a worker computed; the thin row below, when its bytes moved." : "",
                          numbered ? " Numbers are micro-batches; a worker's further stages are paler." : "");
  if (stride > 1) plot.note += fmt::format(" Of {} workers {} are shown, evenly picked.", ranks.size(), labels.size());
  if (drawing.rectangles.size() >= kRectangles) plot.note += fmt::format(" Only the first {} pieces are drawn; an export has all.", kRectangles);
  plot.description = fmt::format("{}. {} {}", plot.title, plot.note, bubble_words(run));
  plot.specification = specification_of(drawing, labels, plot.description);
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
