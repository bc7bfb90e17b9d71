// The exports of traces, by their structure; tests/trace_formats_test.py and tests/hta_test.py read them with other people's programs.
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <protozero/pbf_reader.hpp>

#include "ddl/core/error.h"
#include "ddl/measure/ledger.h"
#include "ddl/report/export.h"
#include "ddl/report/synthetic_pipeline.h"

namespace ddl {
namespace {

using Track = std::pair<int, int>;

TEST(ExportTraces, ChromeHasAnArrowForEachMessageBetweenItsSlices) {
  const auto document = Json::parse(export_chrome(synthetic_pipeline(3, 4, 2)));
  std::map<Track, std::vector<Json>> slices;
  std::map<int, std::vector<Json>> arrows;
  std::set<Track> named;
  for (const auto& event : document["traceEvents"]) {
    const Track track{event["pid"], event["tid"]};
    if (event["ph"] == "M" && event["name"] == "thread_name") { EXPECT_TRUE(named.insert(track).second) << event; }
    if (event["ph"] == "X") slices[track].push_back(event);
    if (event["ph"] == "s" || event["ph"] == "f") arrows[event["id"]].push_back(event);
  }
  EXPECT_EQ(arrows.size(), 32U);
  const auto around = [&](const Json& end) -> Json {
    for (const auto& slice : slices[{end["pid"], end["tid"]}]) {
      const double begin = slice["ts"], length = slice["dur"], time = end["ts"];
      if (begin <= time && time < begin + length) return slice;
    }
    return {};
  };
  for (const auto& [id, ends] : arrows) {
    ASSERT_EQ(ends.size(), 2U);
    EXPECT_EQ(ends[0]["ph"], "s");
    EXPECT_EQ(ends[1]["ph"], "f");
    EXPECT_EQ(ends[1]["bp"], "e");
    EXPECT_LE(ends[0]["ts"], ends[1]["ts"]);
    const auto from = around(ends[0]), to = around(ends[1]);
    ASSERT_FALSE(from.is_null() || to.is_null()) << id;
    EXPECT_EQ(from["args"]["kind"], "send");
    EXPECT_EQ(to["args"]["kind"], "receive");
    EXPECT_EQ(from["args"]["meeting"], to["args"]["meeting"]);
  }
  for (const auto& [track, events] : slices) EXPECT_TRUE(named.contains(track));
  EXPECT_EQ((slices[{0, 0}].size()), 2U) << "steps";
}

TEST(ExportTraces, PerfettoBeginsAndEndsEverySliceInOrder) {
  const auto record = synthetic_pipeline(3, 4, 2);
  const auto text = export_perfetto(record);
  protozero::pbf_reader trace(text);
  std::map<std::uint64_t, int> open;
  std::map<std::uint64_t, std::uint64_t> last;
  std::set<std::uint64_t> described;
  std::multiset<std::uint64_t> starts, ends;
  int begun = 0, packets = 0;
  while (trace.next()) {
    ASSERT_EQ(trace.tag(), 1U);
    auto packet = trace.get_message();
    std::uint64_t time = 0;
    bool sequence = false;
    ++packets;
    while (packet.next()) {
      if (packet.tag() == 8) time = packet.get_uint64();
      else if (packet.tag() == 10) sequence = packet.get_uint32() == 1;
      else if (packet.tag() == 60) {
        auto track = packet.get_message();
        while (track.next()) track.tag() == 1 ? void(described.insert(track.get_uint64())) : track.skip();
      } else if (packet.tag() == 11) {
        auto event = packet.get_message();
        std::uint64_t track = 0;
        int type = 0;
        while (event.next()) {
          if (event.tag() == 9) type = event.get_enum();
          else if (event.tag() == 11) track = event.get_uint64();
          else if (event.tag() == 47) starts.insert(event.get_fixed64());
          else if (event.tag() == 48) ends.insert(event.get_fixed64());
          else event.skip();
        }
        EXPECT_TRUE(described.contains(track));
        EXPECT_GE(time, last[track]);
        last[track] = time;
        begun += type == 1;
        open[track] += type == 1 ? 1 : -1;
        EXPECT_GE(open[track], 0);
      } else packet.skip();
    }
    EXPECT_TRUE(sequence);
  }
  for (const auto& [track, depth] : open) EXPECT_EQ(depth, 0);
  EXPECT_EQ(static_cast<std::size_t>(begun), record["trace"].size() + record["trace_steps"].size());
  EXPECT_EQ(starts, ends);
  EXPECT_EQ(starts.size(), 32U);
}

TEST(ExportTraces, HtaFilesAddUpToTheLedger) {
  const auto record = synthetic_pipeline(3, 4, 2);
  const auto view_of_rank = [&](int rank) {
    double forward = 0;
    for (const auto& entry : record["trace"])
      if (entry["rank"] == rank && entry["cause"] == "forward") forward += entry["end_us"].get<double>() - entry["begin_us"].get<double>();
    return forward;
  };
  const auto files = export_hta(record);
  ASSERT_EQ(files.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) {
    const auto& [name, text] = files[static_cast<std::size_t>(rank)];
    EXPECT_EQ(name, "rank" + std::to_string(rank) + ".json");
    // HTA looks for the rank with "rank":\s+(\d+), line by line: the first that fits must be this.
    EXPECT_NE(text.find("\"rank\": " + std::to_string(rank)), std::string::npos);
    EXPECT_EQ(text.find("\"rank\": "), text.rfind("\"rank\": "));
    const auto document = Json::parse(text);
    double forward = 0, last = -1;
    for (const auto& event : document["traceEvents"]) {
      const double begin = event["ts"], length = event["dur"];
      if (event["args"]["stream"] == 7) {
        EXPECT_GE(begin, last - 1e-9) << "kernels of a stream do not overlap";
        last = begin + length;
      }
      if (event["name"].get<std::string>().starts_with("forward")) forward += length;
      if (event["args"]["stream"] == 20) { EXPECT_NEAR(length, 10, 1e-9) << "bytes move for 10 µs, however early the receive was posted: " << event; }
    }
    EXPECT_NEAR(forward, view_of_rank(rank), 1e-9);
  }
}

TEST(ExportTraces, HtaLeavesOutWarmUp) {
  auto record = synthetic_pipeline(2, 2, 3);
  const auto steps_of = [&] {
    std::set<int> steps;
    const auto document = Json::parse(export_hta(record)[1].text);
    for (const auto& event : document["traceEvents"]) steps.insert(event["args"]["step"].get<int>());
    return steps;
  };
  EXPECT_EQ(steps_of(), (std::set<int>{10, 11, 12}));
  record["samples"]["warmup_steps"] = 11;
  EXPECT_EQ(steps_of(), (std::set<int>{11, 12}));
  record["samples"]["warmup_steps"] = 20;
  EXPECT_EQ(steps_of(), (std::set<int>{10, 11, 12})) << "there is nothing else";
}

TEST(ExportTraces, WithoutATraceEachSaysSo) {
  Json record = synthetic_record({});
  record["trace"] = Json::array();
  EXPECT_THROW(export_perfetto(record), Error);
  EXPECT_THROW(export_hta(record), Error);
}

}  // namespace
}  // namespace ddl
