#include "ddl/report/export.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

Json span(int rank, const char* stream, double begin, double end) {
  return {{"rank", rank}, {"step", 1}, {"task", 2}, {"stream", stream}, {"cause", "forward"}, {"name", "f"},
          {"begin_us", begin}, {"end_us", end}};
}

TEST(Export, KnowsItsFormats) {
  EXPECT_EQ(builtin_exporters().names(), (std::vector<std::string>{"json", "csv", "csv-summary", "chrome", "perfetto", "hta", "chakra"}));
}

TEST(Export, JsonIsTheRecord) {
  const auto record = synthetic_record({});
  EXPECT_EQ(Json::parse(export_json(record)), record);
  EXPECT_NO_THROW(export_json({{"messages", {"\xff"}}}));
}

TEST(Export, CsvHasARowPerRankAndStep) {
  const auto lines = split(export_csv(synthetic_record({.workers = 2, .steps = 10})), '\n');
  ASSERT_EQ(lines.size(), 1u + 20u + 1u);
  EXPECT_EQ(lines[0], "run,rank,step,warmup,step_ms");
  EXPECT_TRUE(lines[1].starts_with("20261121-101510-3f2a9c,0,0,1,"));
  EXPECT_TRUE(lines[4].starts_with("20261121-101510-3f2a9c,0,3,0,"));
  EXPECT_TRUE(lines[11].starts_with("20261121-101510-3f2a9c,1,0,1,"));
}

TEST(Export, CsvWithoutStepTimesSaysSo) {
  try {
    export_csv(failed_record({}, "x"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::not_found);
  }
}

TEST(Export, CsvSummaryIsOneLineOfAsManyCells) {
  auto record = synthetic_record({.workers = 2});
  record["case"] = "a \"quoted\", case\nof two lines";
  const auto text = export_csv_summary(record);
  EXPECT_NE(text.find("\"a \"\"quoted\"\", case\nof two lines\""), std::string::npos);
  record["case"] = "plain";
  record["reason"] = "none";
  const auto lines = split(export_csv_summary(record), '\n');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(split(lines[0], ',').size(), split(lines[1], ',').size());
  EXPECT_NE(lines[0].find(",batch,workers,strategy,precision,transport,"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find(",64,2,data,fp32,shm,"), std::string::npos) << lines[1];
  const auto empty = split(export_csv_summary(Json::object()), '\n');
  EXPECT_EQ(split(empty[0], ',').size(), split(empty[1], ',').size()) << empty[1];
}

TEST(Export, ChromeNamesProcessesAndThreads) {
  const auto document = Json::parse(export_chrome(synthetic_record({.workers = 2})));
  ASSERT_TRUE(document["traceEvents"].is_array());
  std::map<std::string, int> phases;
  std::set<std::pair<int, int>> named, used;
  for (const auto& event : document["traceEvents"]) {
    ++phases[event["ph"]];
    const std::pair<int, int> track{event["pid"], event["tid"]};
    if (event["name"] == "thread_name") named.insert(track);
    if (event["ph"] == "X") {
      used.insert(track);
      EXPECT_GE(event["dur"].get<double>(), 0);
      EXPECT_TRUE(event["ts"].is_number());
      EXPECT_EQ(event["args"]["step"], 12);
    }
  }
  EXPECT_EQ(phases["X"], 2);
  EXPECT_EQ(named, used);
  EXPECT_EQ(document["traceEvents"][0]["args"]["name"], "rank 0 on cpu");
}

TEST(Export, ChromeEventsOfATrackNest) {
  Json record = synthetic_record({});
  record["trace"] = {span(0, "compute", 0, 100), span(0, "compute", 10, 50), span(0, "compute", 40, 120),
                     span(0, "compute", 100, 110), span(1, "compute", 5, 10)};
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  const auto document = Json::parse(export_chrome(record));
  for (const auto& event : document["traceEvents"])
    if (event["ph"] == "X")
      tracks[{event["pid"], event["tid"]}].emplace_back(event["ts"],
                                                        event["ts"].get<double>() + event["dur"].get<double>());
  EXPECT_EQ(tracks.size(), 3u);
  for (const auto& [track, events] : tracks)
    for (const auto& a : events)
      for (const auto& b : events) EXPECT_FALSE(a.first < b.first && b.first < a.second && a.second < b.second);
}

TEST(Export, ChromeWithoutATraceSaysSo) {
  for (const Json& trace : {Json(), Json::array(), Json("x"), Json({{{"rank", 0}}})}) {
    Json record = synthetic_record({});
    record["trace"] = trace;
    try {
      export_chrome(record);
      FAIL() << trace;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::not_found);
      EXPECT_NE(std::string(error.what()).find("20261121"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace ddl
