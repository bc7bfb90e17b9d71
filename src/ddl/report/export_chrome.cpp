#include <algorithm>

#include <fmt/format.h>

#include "ddl/core/error.h"
#include "ddl/report/escape.h"
#include "ddl/report/export.h"
#include "ddl/report/lanes.h"
#include "ddl/report/run_view.h"

namespace ddl {
namespace {

// Times are those of the record, microseconds with three digits after the point.
double microseconds(Nanoseconds time) { return static_cast<double>(time) * 1e-3; }

Json metadata(const char* what, int pid, int tid, const Json& args) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", args}};
}

Json slice(const TracedSpan& each, int tid) {
  const auto& span = each.span;
  Json args = {{"cause", each.cause}, {"step", span.step}, {"task", span.task}};
  if (!each.task.kind.empty()) args["kind"] = each.task.kind;
  if (each.task.stage >= 0) args["stage"] = each.task.stage;
  if (each.task.micro_batch >= 0) args["micro_batch"] = each.task.micro_batch;
  if (each.task.bytes >= 0) args["bytes"] = each.task.bytes;
  if (span.meeting != 0) args["meeting"] = span.meeting;
  return {{"ph", "X"},
          {"name", each.name},
          {"cat", each.cause},
          {"pid", span.worker},
          {"tid", tid},
          {"ts", microseconds(span.begin)},
          {"dur", microseconds(span.end) - microseconds(span.begin)},
          {"args", args}};
}

/// An arrow from the beginning of the send to the middle of the time in which both ends were at it: viewers bind each end to the slice around it.
void add_arrow(Json& events, const TraceView& view, const Lanes& lanes, const Flow& flow, std::size_t number) {
  const auto end = [&](const char* phase, std::size_t which, Nanoseconds time) -> Json {
    return {{"ph", phase}, {"id", number}, {"name", "message"}, {"cat", "message"}, {"pid", view.spans[which].span.worker},
            {"tid", lanes.lanes[lanes.of_span[which]].number}, {"ts", microseconds(time)}};
  };
  const auto& send = view.spans[flow.send].span;
  const auto& receive = view.spans[flow.receive].span;
  if (receive.end < send.begin) return;  // clocks that disagree: an arrow back in time is dropped by viewers
  events.push_back(end("s", flow.send, send.begin));
  events.push_back(end("f", flow.receive, std::max(send.begin, receive.begin) + (receive.end - std::max(send.begin, receive.begin)) / 2));
  events.back()["bp"] = "e";
}

}  // namespace

std::string export_chrome(const Json& record) {
  const auto view = view_trace(record);
  if (view.empty()) throw no_trace(record, "chrome");
  const auto lanes = lanes_of(view);
  Json events = Json::array();
  for (const int rank : view.ranks()) {
    events.push_back(metadata("process_name", rank, 0, {{"name", rank_title(record, rank)}}));
    events.push_back(metadata("process_sort_index", rank, 0, {{"sort_index", rank}}));
  }
  for (const auto& lane : lanes.lanes) {
    events.push_back(metadata("thread_name", lane.rank, lane.number, {{"name", lane.name}}));
    events.push_back(metadata("thread_sort_index", lane.rank, lane.number, {{"sort_index", lane.number}}));
  }
  if (view.steps_told) {
    // Above the others of its process.
    for (const int rank : view.ranks()) events.push_back(metadata("thread_name", rank, 0, {{"name", "steps"}}));
    for (const auto& [key, period] : view.steps)
      events.push_back({{"ph", "X"}, {"name", fmt::format("step {}", key.first)}, {"cat", "step"}, {"pid", key.second}, {"tid", 0},
                        {"ts", microseconds(period.begin)}, {"dur", microseconds(period.end) - microseconds(period.begin)}, {"args", {{"step", key.first}}}});
  }
  for (const auto i : lanes.order) events.push_back(slice(view.spans[i], lanes.lanes[lanes.of_span[i]].number));
  std::size_t number = 0;
  for (const auto& flow : flows(view)) add_arrow(events, view, lanes, flow, ++number);
  const Json document = {{"displayTimeUnit", "ms"},
                         {"otherData", {{"run", text_at(record, {"id"})}, {"case", text_at(record, {"case"})}}},
                         {"traceEvents", events}};
  return json_text(document) + "\n";
}

}  // namespace ddl
