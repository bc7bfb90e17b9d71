#include "ddl/report/timeline_drawing.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "ddl/report/format.h"

namespace ddl {
namespace {

/// Of the plot's width: a two-digit number fits from here on.
constexpr double kRoomForNumber = 0.016;
/// Of a step that takes so many times as long over all workers as on any of them, one worker's time is shown: the rest would be mostly of other steps.
constexpr double kApart = 1.5;

std::string shade_of(const Span& piece, const TaskView& task) {
  return task.kind == "backward_weight" ? "weight gradient" : std::string(name(piece.cause));
}

/// A worker's further stages are drawn paler: its chunks are told apart by that.
double opacity_of(const std::vector<int>& stages, int stage) {
  const auto place = std::find(stages.begin(), stages.end(), stage);
  if (place == stages.end() || stages.size() < 2) return 1;
  return 1 - 0.45 * static_cast<double>(place - stages.begin()) / static_cast<double>(stages.size() - 1);
}

using Tasks = std::map<std::pair<int, int>, const TracedSpan*>;

/// By step and number in the plan: the tasks of `rank`, those of a server that lives with it left out.
Tasks tasks_of(const TraceView& view, int rank) {
  Tasks tasks;
  for (const auto& each : view.spans)
    if (each.span.worker == rank && each.span.task >= 0 && each.span.stream != Stream::server) tasks[{each.span.step, each.span.task}] = &each;
  return tasks;
}

void draw_worker(Drawing& drawing, const TraceView& view, const Trace& spans, const Arrivals& arrivals, const Row& of_rank, std::size_t row, bool numbered) {
  const int rank = of_rank.rank;
  const auto tasks = tasks_of(view, rank);
  std::set<int> seen;
  for (const auto& [key, each] : tasks)
    if (computes(each->span.cause) && each->task.micro_batch >= 0) seen.insert(each->task.stage);
  const std::vector<int> stages{seen.begin(), seen.end()};
  const auto worker = of_rank.label();
  const auto top = static_cast<double>(row);
  static const TaskView kNothing;
  const auto task_of = [&](const Span& span) {
    const auto found = tasks.find({span.step, span.task});
    return found == tasks.end() ? nullptr : found->second;
  };
  for (const auto& piece : flatten(spans, rank, drawing.begin, drawing.end, arrivals)) {
    const auto* of = task_of(piece);
    const auto& task = of ? of->task : kNothing;
    const auto shade = shade_of(piece, task);
    const double opacity = computes(piece.cause) ? opacity_of(stages, task.stage) : 1;
    drawing.add({piece.begin, piece.end}, top, kComputeHeight, shade, of ? of->name : shade, worker, piece.step, opacity);
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
      drawing.add(when, top + kCommunicationTop, kCommunicationHeight, "communication", of ? of->name : std::string(name(span.cause)), worker, span.step, 1);
  }
  for (const auto& [key, period] : view.steps)
    if (key.second == rank && period.begin > drawing.begin && period.begin < drawing.end)
      drawing.borders.push_back({{"at", drawing.ms(period.begin)}, {"top", top}, {"bottom", top + kComputeHeight}, {"said", fmt::format("step {} begins", key.first)}});
}

/// A server updates parameters with what workers send it; it lives in a worker's process and has a row of its own below that worker's.
void draw_server(Drawing& drawing, const TraceView& view, const Row& of_rank, std::size_t row) {
  const auto server = of_rank.label();
  const auto top = static_cast<double>(row);
  for (const auto& each : view.spans) {
    const auto& span = each.span;
    const Period when{std::max(span.begin, drawing.begin), std::min(span.end, drawing.end)};
    if (span.worker != of_rank.rank || span.stream != Stream::server || when.begin >= when.end) continue;
    const bool bytes = span.cause == Cause::communication;
    drawing.add(when, bytes ? top + kCommunicationTop : top, bytes ? kCommunicationHeight : kComputeHeight, std::string(name(span.cause)), each.name, server, span.step, 1);
  }
}

}  // namespace

Window window_of(const TraceView& view, int step) {
  Window all, longest;
  for (const auto& [key, period] : view.steps) {
    if (key.first != step) continue;
    const bool first = all.begin == all.end;
    all = {first ? period.begin : std::min(all.begin, period.begin), first ? period.end : std::max(all.end, period.end), -1};
    if (period.end - period.begin > longest.end - longest.begin) longest = {period.begin, period.end, key.second};
  }
  return static_cast<double>(all.end - all.begin) > kApart * static_cast<double>(longest.end - longest.begin) ? longest : all;
}

TraceView within(const TraceView& view, const Window& window) {
  std::set<int> steps;
  for (const auto& each : view.spans)
    if (each.span.begin < window.end && each.span.end > window.begin) steps.insert(each.span.step);
  TraceView part;
  for (const auto& each : view.spans)
    if (steps.contains(each.span.step)) part.spans.push_back(each);
  if (view.steps_told) part.steps = view.steps;
  return part;
}

void Drawing::add(const Period& when, double top, double height, const std::string& shade, const std::string& task, const std::string& worker, int step, double opacity) {
  if (rectangles.size() >= kRectangles) return;
  shades.insert(shade);
  rectangles.push_back({{"from", ms(when.begin)}, {"to", ms(when.end)}, {"top", top}, {"bottom", top + height}, {"kind", shade}, {"task", task},
                        {"worker", worker}, {"step", step}, {"opacity", opacity}, {"said", in_ms(static_cast<double>(when.end - when.begin) * 1e-6)}});
}

std::string Row::label() const { return fmt::format("{} {}", serves ? "server on rank" : "rank", rank); }

Rows rows_of(const TraceView& view) {
  std::set<int> serving;
  for (const auto& each : view.spans)
    if (each.span.stream == Stream::server) serving.insert(each.span.worker);
  const auto ranks = view.ranks();
  Rows rows;
  rows.stride = (ranks.size() + serving.size() + kTimelineRows - 1) / kTimelineRows;
  for (std::size_t i = 0; i < ranks.size(); i += rows.stride) {
    rows.shown.push_back({ranks[i], false});
    if (serving.contains(ranks[i])) rows.shown.push_back({ranks[i], true});
  }
  return rows;
}

Drawing draw(const TraceView& view, const Window& window, const std::vector<Row>& rows, bool numbered) {
  const auto spans = view.trace();
  const Arrivals arrivals(spans);
  Drawing drawing;
  drawing.begin = window.begin;
  drawing.end = window.end;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].serves)
      draw_server(drawing, view, rows[i], i);
    else
      draw_worker(drawing, view, spans, arrivals, rows[i], i, numbered);
  }
  return drawing;
}

}  // namespace ddl
