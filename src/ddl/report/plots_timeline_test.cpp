#include <map>

#include <gtest/gtest.h>

#include "ddl/report/plots.h"
#include "ddl/report/report.h"
#include "ddl/report/synthetic_pipeline.h"

namespace ddl {
namespace {

/// Views of records must not outlive them.
struct Shown {
  std::vector<Json> records;
  std::vector<RunView> views;
  explicit Shown(Json record) : records{std::move(record)}, views(view_runs(records)) {}
  Plot plot() const { return timeline_plot(views.front()); }
};

const Json& layer(const Plot& plot, std::size_t number) { return plot.specification["layer"][number]["data"]["values"]; }

TEST(TimelinePlot, DrawsPassesMessagesAndBubbles) {
  const auto plot = Shown(synthetic_pipeline(2, 3, 1)).plot();
  ASSERT_TRUE(plot.present());
  std::map<std::string, double> ms;
  for (const auto& rectangle : layer(plot, 0)) {
    ms[rectangle["worker"].get<std::string>() + " " + rectangle["kind"].get<std::string>()] += rectangle["to"].get<double>() - rectangle["from"].get<double>();
    EXPECT_LT(rectangle["top"], rectangle["bottom"]);
    EXPECT_LE(rectangle["to"], plot.specification["layer"][0]["encoding"]["x"]["scale"]["domain"][1]);
  }
  for (const auto* worker : {"rank 0", "rank 1"}) {
    EXPECT_NEAR(ms[std::string(worker) + " forward"], 0.3, 1e-9);
    EXPECT_NEAR(ms[std::string(worker) + " backward"], 0.6, 1e-9);
  }
  EXPECT_NEAR(ms["rank 1 bubble"], 0.1, 1e-9) << "until the first activations are sent";
  // From 0.3, when its forwards are done, to 0.61: the message to rank 1, three forwards there, and a backward, which began at 0.41.
  EXPECT_NEAR(ms["rank 0 bubble"], 0.31, 1e-9) << "until the first gradients are sent";
  ASSERT_EQ(layer(plot, 1).size(), 12U) << "a number in each pass";
  EXPECT_EQ(layer(plot, 1)[0]["number"], "0");
  ASSERT_EQ(plot.legend.size(), 4U);
  EXPECT_NE(plot.note.find("Step 10."), std::string::npos) << plot.note;
}

TEST(TimelinePlot, PicksTheStepOfMiddleLengthAmongThoseMeasured) {
  auto record = synthetic_pipeline(2, 2, 5);
  const auto stretch = [&](int step, double by) {
    for (auto& entry : record["trace_steps"])
      if (entry["step"] == step) entry["end_us"] = entry["end_us"].get<double>() + by;
  };
  stretch(10, 900);  // the slowest are warm-up
  stretch(11, 800);
  stretch(12, 3);
  stretch(13, 2);
  record["samples"]["warmup_steps"] = 12;
  EXPECT_NE(Shown(record).plot().note.find("Step 13, the one of middle length among the 3 that were traced"), std::string::npos) << Shown(record).plot().note;
}

TEST(TimelinePlot, OfManyWorkersShowsSome) {
  const auto plot = Shown(synthetic_pipeline(40, 2, 1)).plot();
  EXPECT_NE(plot.note.find("Of 40 workers 14 are shown"), std::string::npos) << plot.note;
}

TEST(TimelinePlot, IsLeftOutWithoutATrace) {
  auto record = synthetic_pipeline();
  record["trace"] = Json::array();
  EXPECT_FALSE(Shown(record).plot().present());
  auto other_steps = synthetic_pipeline();
  for (auto& entry : other_steps["trace_steps"]) entry["step"] = 99;
  EXPECT_FALSE(Shown(other_steps).plot().present());
  EXPECT_FALSE(Shown(failed_record({}, "x")).plot().present());
}

TEST(TimelinePlot, OldRecordsAreDrawnWithoutNumbers) {
  auto record = synthetic_pipeline();
  record.erase("plan");
  record.erase("trace_steps");
  const auto plot = Shown(record).plot();
  ASSERT_TRUE(plot.present());
  EXPECT_EQ(plot.specification["layer"].size(), 1U);
}

/// Times of each row and kind, in ms.
std::map<std::string, double> drawn(const Plot& plot) {
  std::map<std::string, double> ms;
  for (const auto& rectangle : layer(plot, 0))
    ms[rectangle["worker"].get<std::string>() + " " + rectangle["kind"].get<std::string>()] += rectangle["to"].get<double>() - rectangle["from"].get<double>();
  return ms;
}

Json traced(int rank, int step, const char* stream, const char* cause, double begin_us, double end_us) {
  return {{"rank", rank}, {"step", step}, {"task", -1}, {"stream", stream}, {"cause", cause}, {"name", cause}, {"begin_us", begin_us}, {"end_us", end_us}};
}

TEST(TimelinePlot, ServersHaveALane) {
  auto record = synthetic_record({.workers = 2, .strategy = "parameter-server"});
  record["trace"] = {traced(0, 12, "compute", "forward", 0, 900), traced(1, 12, "compute", "forward", 0, 900), traced(0, 12, "server", "communication", 100, 300),
                     traced(0, 12, "server", "update", 300, 700)};
  const auto plot = Shown(record).plot();
  const auto ms = drawn(plot);
  EXPECT_NEAR(ms.at("server on rank 0 update"), 0.4, 1e-9);
  EXPECT_NEAR(ms.at("server on rank 0 communication"), 0.2, 1e-9);
  EXPECT_EQ(ms.count("server on rank 1 update"), 0U);
  EXPECT_EQ(plot.specification["layer"][0]["encoding"]["y"]["axis"]["labelExpr"], "['rank 0','server on rank 0','rank 1'][floor(datum.value)]");
  EXPECT_NE(plot.note.find("A server has a row of its own"), std::string::npos) << plot.note;
}

/// Rank 1 is three steps of 1 ms behind; each worker computes all the time.
TEST(TimelinePlot, ShowsOneWorkersStepWhereTheyAreAtItAtDifferentTimes) {
  auto record = synthetic_record({.workers = 2});
  record["trace"] = Json::array();
  record["trace_steps"] = Json::array();
  for (int step = 10; step < 20; ++step)
    for (const int rank : {0, 1}) {
      const double begin = 1000.0 * step + 3400.0 * rank, end = begin + 1000;
      record["trace"].push_back(traced(rank, step, "compute", "forward", begin, end));
      record["trace_steps"].push_back({{"rank", rank}, {"step", step}, {"begin_us", begin}, {"end_us", end}});
    }
  const auto plot = Shown(record).plot();
  EXPECT_EQ(plot.specification["layer"][0]["encoding"]["x"]["scale"]["domain"][1], 1.0);
  const auto ms = drawn(plot);
  EXPECT_NEAR(ms.at("rank 0 forward"), 1, 1e-9);
  EXPECT_NEAR(ms.at("rank 1 forward"), 1, 1e-9) << "of two steps";
  ASSERT_EQ(layer(plot, 1).size(), 1U) << "where rank 1's next step begins";
  EXPECT_NEAR(layer(plot, 1)[0]["at"].get<double>(), 0.4, 1e-9);
  EXPECT_NE(plot.note.find("Workers were at it at different times: shown is rank 0's time"), std::string::npos) << plot.note;
}

TEST(BubbleWords, SetTheIdealBesideTheMeasured) {
  auto record = synthetic_pipeline(2, 4, 1);
  for (auto& rank : record["ranks"]) {
    rank["wall_ms"] = 10;
    for (auto& [cause, value] : rank["ledger_ms"].items()) value = 0;
    rank["ledger_ms"]["bubble"] = 2.5;
    rank["ledger_ms"]["forward"] = 7.5;
  }
  EXPECT_EQ(bubble_words(Shown(record).views.front()),
            "The bubble of gpipe with 4 micro-batches over 2 workers is 20 % of a step, were all stages equal and messages free; measured: 25 % bubble, 0 % waiting for a "
            "late worker, 0 % exposed communication.");
  record["plan"]["bubble"]["exact"] = false;
  EXPECT_NE(bubble_words(Shown(record).views.front()).find("is at least 20 %"), std::string::npos);
  record["plan"]["bubble"] = nullptr;
  EXPECT_EQ(bubble_words(Shown(record).views.front()), "");
}

TEST(TimelinePage, HasAFigureForEachRunWithATrace) {
  const auto page = render_report({synthetic_pipeline(2, 3, 1), synthetic_record({.workers = 2, .number = 3}), failed_record({.number = 4}, "x")});
  EXPECT_NE(page.find("id=\"timeline-0\""), std::string::npos);
  EXPECT_NE(page.find("id=\"timeline-1\""), std::string::npos);
  EXPECT_EQ(page.find("id=\"timeline-2\""), std::string::npos);
}

}  // namespace
}  // namespace ddl
