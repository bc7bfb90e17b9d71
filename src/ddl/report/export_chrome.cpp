#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "ddl/core/error.h"
#include "ddl/report/escape.h"
#include "ddl/report/export.h"
#include "ddl/report/run_view.h"

namespace ddl {
namespace {

/// Lanes of one stream have neighbouring thread numbers; more than this many never overlap in practice.
constexpr int kLanes = 16;

struct Event {
  int rank = 0;
  std::string stream;
  double begin = 0, end = 0;   ///< µs
  const Json* span = nullptr;
  int lane = 0;
};

std::vector<Event> events_of(const Json& record) {
  std::vector<Event> events;
  const auto* trace = find_at(record, {"trace"});
  if (!trace || !trace->is_array()) return events;
  for (const auto& span : *trace) {
    const auto begin = number_at(span, {"begin_us"}), end = number_at(span, {"end_us"});
    if (!begin || !end || *end < *begin) continue;
    const auto stream = text_at(span, {"stream"});
    events.push_back({static_cast<int>(number_at(span, {"rank"}).value_or(0)), stream.empty() ? "compute" : stream,
                      *begin, *end, &span, 0});
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.rank, a.stream, a.begin, b.end) < std::tie(b.rank, b.stream, b.begin, a.end);
  });
  return events;
}

/// The first lane in which the event stands free or inside what is open there.
void assign_lanes(std::vector<Event>& events) {
  std::map<std::pair<int, std::string>, std::vector<std::vector<double>>> open;
  for (auto& event : events) {
    auto& lanes = open[{event.rank, event.stream}];
    for (std::size_t lane = 0;; ++lane) {
      if (lane == lanes.size()) lanes.emplace_back();
      auto& ends = lanes[lane];
      while (!ends.empty() && ends.back() <= event.begin) ends.pop_back();
      if (!ends.empty() && ends.back() < event.end && lane + 1 < kLanes) continue;
      ends.push_back(event.end);
      event.lane = static_cast<int>(lane);
      break;
    }
  }
}

int stream_number(const std::string& stream) {
  for (std::size_t i = 0; i < kStreams; ++i)
    if (stream == name(static_cast<Stream>(i))) return static_cast<int>(i);
  return static_cast<int>(kStreams);
}

Json metadata(const char* what, int pid, int tid, const Json& args) {
  return {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", args}};
}

std::string device_of(const Json& record, int rank) {
  if (const auto* ranks = find_at(record, {"ranks"}); ranks && ranks->is_array())
    for (const auto& entry : *ranks)
      if (number_at(entry, {"rank"}) == rank) return text_at(entry, {"device"});
  return "";
}

}  // namespace

std::string export_chrome(const Json& record) {
  auto events = events_of(record);
  if (events.empty())
    throw Error(Code::not_found,
                fmt::format("[export] run {} holds no trace, which chrome is made of; run with --trace on",
                            text_at(record, {"id"})));
  assign_lanes(events);
  Json out = Json::array();
  std::map<int, bool> ranks;
  std::map<std::pair<int, int>, std::string> tracks;
  for (const auto& event : events) {
    const int tid = stream_number(event.stream) * kLanes + event.lane;
    ranks[event.rank] = true;
    tracks[{event.rank, tid}] = event.lane == 0 ? event.stream : fmt::format("{} ({})", event.stream, event.lane + 1);
    const auto cause = text_at(*event.span, {"cause"}), called = text_at(*event.span, {"name"});
    Json args = {{"cause", cause}};
    for (const auto* key : {"step", "task"})
      if (const auto* value = find_at(*event.span, {key})) args[key] = *value;
    out.push_back({{"ph", "X"},
                   {"name", called.empty() ? cause : called},
                   {"cat", cause},
                   {"pid", event.rank},
                   {"tid", tid},
                   {"ts", event.begin},
                   {"dur", event.end - event.begin},
                   {"args", args}});
  }
  Json head = Json::array();
  for (const auto& [rank, seen] : ranks) {
    const auto device = device_of(record, rank);
    head.push_back(metadata("process_name", rank, 0,
                            {{"name", fmt::format("rank {}{}", rank, device.empty() ? "" : " on " + device)}}));
    head.push_back(metadata("process_sort_index", rank, 0, {{"sort_index", rank}}));
  }
  for (const auto& [track, called] : tracks) {
    head.push_back(metadata("thread_name", track.first, track.second, {{"name", called}}));
    head.push_back(metadata("thread_sort_index", track.first, track.second, {{"sort_index", track.second}}));
  }
  head.insert(head.end(), out.begin(), out.end());
  const Json document = {{"displayTimeUnit", "ms"},
                         {"otherData", {{"run", text_at(record, {"id"})}, {"case", text_at(record, {"case"})}}},
                         {"traceEvents", head}};
  return json_text(document) + "\n";
}

}  // namespace ddl
