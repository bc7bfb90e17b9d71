// Perfetto's own format: docs "Writing TrackEvent Protos Synthetically", field numbers from protos/perfetto/trace/perfetto_trace.proto of 0.59.
// tests/trace_formats_test.py reads it back with the schema that Perfetto's Python package carries.
#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <protozero/pbf_writer.hpp>

#include "ddl/core/error.h"
#include "ddl/report/export.h"
#include "ddl/report/lanes.h"
#include "ddl/report/run_view.h"

namespace ddl {
namespace {

namespace trace { constexpr protozero::pbf_tag_type kPacket = 1; }
namespace packet {
constexpr protozero::pbf_tag_type kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kSequenceFlags = 13, kTrackDescriptor = 60;
constexpr std::uint32_t kStateCleared = 1;
}  // namespace packet
namespace descriptor { constexpr protozero::pbf_tag_type kUuid = 1, kProcess = 3, kThread = 4, kParent = 5, kRank = 12; }
namespace process { constexpr protozero::pbf_tag_type kPid = 1, kName = 6; }
namespace thread { constexpr protozero::pbf_tag_type kPid = 1, kTid = 2, kName = 5; }
namespace event {
constexpr protozero::pbf_tag_type kAnnotation = 4, kType = 9, kTrack = 11, kCategories = 22, kName = 23, kFlows = 47, kTerminatingFlows = 48;
constexpr std::int32_t kSliceBegin = 1, kSliceEnd = 2;
}  // namespace event
namespace annotation { constexpr protozero::pbf_tag_type kInt = 4, kString = 6, kName = 10; }

/// One sequence of packets; everything is written out in full, nothing interned.
class Writer {
 public:
  void process(std::uint64_t uuid, int pid, const std::string& called) {
    packet([&](protozero::pbf_writer& out) {
      protozero::pbf_writer track(out, packet::kTrackDescriptor);
      track.add_uint64(descriptor::kUuid, uuid);
      track.add_int32(descriptor::kRank, pid);
      protozero::pbf_writer about(track, descriptor::kProcess);
      about.add_int32(process::kPid, pid);
      about.add_string(process::kName, called);
    });
  }

  void thread(std::uint64_t uuid, std::uint64_t parent, int pid, int tid, const std::string& called) {
    packet([&](protozero::pbf_writer& out) {
      protozero::pbf_writer track(out, packet::kTrackDescriptor);
      track.add_uint64(descriptor::kUuid, uuid);
      track.add_uint64(descriptor::kParent, parent);
      track.add_int32(descriptor::kRank, tid);
      protozero::pbf_writer about(track, descriptor::kThread);
      about.add_int32(thread::kPid, pid);
      about.add_int32(thread::kTid, tid);
      about.add_string(thread::kName, called);
    });
  }

  template <class Annotate>
  void begin(std::uint64_t track, Nanoseconds time, const std::string& called, const std::string& category, std::optional<std::uint64_t> flow, Annotate annotate) {
    at(time, [&](protozero::pbf_writer& out) {
      protozero::pbf_writer slice(out, packet::kTrackEvent);
      annotate(slice);
      slice.add_enum(event::kType, event::kSliceBegin);
      slice.add_uint64(event::kTrack, track);
      slice.add_string(event::kCategories, category);
      slice.add_string(event::kName, called);
      if (flow) slice.add_fixed64(event::kFlows, *flow);
    });
  }

  void end(std::uint64_t track, Nanoseconds time, std::optional<std::uint64_t> flow) {
    at(time, [&](protozero::pbf_writer& out) {
      protozero::pbf_writer slice(out, packet::kTrackEvent);
      slice.add_enum(event::kType, event::kSliceEnd);
      slice.add_uint64(event::kTrack, track);
      if (flow) slice.add_fixed64(event::kTerminatingFlows, *flow);
    });
  }

  std::string take() { return std::move(data_); }

 private:
  template <class Fill>
  void packet(Fill fill) {
    protozero::pbf_writer all(data_);
    protozero::pbf_writer out(all, trace::kPacket);
    out.add_uint32(packet::kSequence, 1);
    if (first_) out.add_uint32(packet::kSequenceFlags, packet::kStateCleared);
    first_ = false;
    fill(out);
  }

  template <class Fill>
  void at(Nanoseconds time, Fill fill) {
    packet([&](protozero::pbf_writer& out) {
      out.add_uint64(packet::kTimestamp, static_cast<std::uint64_t>(std::max<Nanoseconds>(0, time)));
      fill(out);
    });
  }

  std::string data_;
  bool first_ = true;
};

void note(protozero::pbf_writer& slice, const char* key, const std::string& value) {
  protozero::pbf_writer out(slice, event::kAnnotation);
  out.add_string(annotation::kString, value);
  out.add_string(annotation::kName, key);
}

void note(protozero::pbf_writer& slice, const char* key, std::int64_t value) {
  protozero::pbf_writer out(slice, event::kAnnotation);
  out.add_int64(annotation::kInt, value);
  out.add_string(annotation::kName, key);
}

void note_task(protozero::pbf_writer& slice, const TracedSpan& each) {
  note(slice, "cause", each.cause);
  note(slice, "step", each.span.step);
  if (!each.task.kind.empty()) note(slice, "kind", each.task.kind);
  if (each.task.stage >= 0) note(slice, "stage", each.task.stage);
  if (each.task.micro_batch >= 0) note(slice, "micro_batch", each.task.micro_batch);
  if (each.task.bytes >= 0) note(slice, "bytes", static_cast<std::int64_t>(each.task.bytes));
  if (each.span.meeting != 0) note(slice, "meeting", each.span.meeting);
}

// Process 0 and thread 0 are the kernel's, and viewers treat them so.
int pid_of(int rank) { return rank + 1; }
std::uint64_t process_uuid(int rank) { return static_cast<std::uint64_t>(pid_of(rank)) << 32; }
std::uint64_t lane_uuid(int rank, int number) { return process_uuid(rank) + static_cast<std::uint64_t>(number) + 1; }
/// Threads of one process have numbers that no other process has.
int tid_of(int rank, int number) { return pid_of(rank) * 1000 + number; }

}  // namespace

std::string export_perfetto(const Json& record) {
  const auto view = view_trace(record);
  if (view.empty()) throw no_trace(record, "perfetto");
  const auto lanes = lanes_of(view);
  Writer out;
  for (const int rank : view.ranks()) {
    out.process(process_uuid(rank), pid_of(rank), rank_title(record, rank));
    if (view.steps_told) out.thread(lane_uuid(rank, 0), process_uuid(rank), pid_of(rank), tid_of(rank, 0), "steps");
  }
  for (const auto& lane : lanes.lanes) out.thread(lane_uuid(lane.rank, lane.number), process_uuid(lane.rank), pid_of(lane.rank), tid_of(lane.rank, lane.number), lane.name);

  if (view.steps_told)
    for (const auto& [key, period] : view.steps) {
      out.begin(lane_uuid(key.second, 0), period.begin, fmt::format("step {}", key.first), "step", std::nullopt, [](protozero::pbf_writer&) {});
      out.end(lane_uuid(key.second, 0), period.end, std::nullopt);
    }

  // An arrow starts where the send does and ends where the receive does, which may well have begun before the send.
  std::map<std::size_t, std::uint64_t> starts, ends;
  std::uint64_t number = 0;
  for (const auto& flow : flows(view)) starts[flow.send] = ends[flow.receive] = ++number;
  const auto flow_of = [](const std::map<std::size_t, std::uint64_t>& of, std::size_t i) {
    const auto found = of.find(i);
    return found == of.end() ? std::nullopt : std::optional(found->second);
  };
  // Slices of a track are begun and ended like brackets.
  std::vector<std::size_t> open;
  const auto close = [&](Nanoseconds until, std::size_t lane) {
    while (!open.empty() && (lanes.of_span[open.back()] != lane || view.spans[open.back()].span.end <= until)) {
      const auto& last = lanes.lanes[lanes.of_span[open.back()]];
      out.end(lane_uuid(last.rank, last.number), view.spans[open.back()].span.end, flow_of(ends, open.back()));
      open.pop_back();
    }
  };
  for (const auto i : lanes.order) {
    const auto& each = view.spans[i];
    const auto& lane = lanes.lanes[lanes.of_span[i]];
    close(each.span.begin, lanes.of_span[i]);
    out.begin(lane_uuid(lane.rank, lane.number), each.span.begin, each.name, each.cause, flow_of(starts, i), [&](protozero::pbf_writer& slice) { note_task(slice, each); });
    open.push_back(i);
  }
  close(0, lanes.lanes.size());
  return out.take();
}

}  // namespace ddl
