#include "ddl/report/run_view.h"

#include <gtest/gtest.h>

#include "ddl/report/comparison.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

TEST(RunView, TakesAnyRecordAtAll) {
  const std::vector<Json> records{
      Json::object(), Json(), Json::array(), {{"id", 7}, {"ranks", "none"}, {"config", nullptr}, {"throughput", 3}},
      {{"ranks", {nullptr, 5, Json::object()}}, {"config", {{"workers", Json::array()}}}, {"environment", "?"}}};
  const auto views = view_runs(records);
  EXPECT_EQ(views.size(), 3u) << "what is no object is no record";
  for (const auto& view : views) {
    EXPECT_FALSE(view.has_ledger());
    EXPECT_FALSE(view.exposed_share());
    EXPECT_FALSE(view.label.empty());
  }
}

TEST(RunView, CountsWorkersHoweverTheyAreWritten) {
  const auto workers = [](const Json& written) {
    const std::vector<Json> records{{{"config", {{"workers", written}}}}};
    return view_runs(records).front().workers;
  };
  EXPECT_EQ(workers(4), 4);
  EXPECT_EQ(workers("4"), 4);
  EXPECT_EQ(workers("cpu:2"), 2);
  EXPECT_EQ(workers("cpu[threads=2]:3,cuda:1"), 4);
  EXPECT_EQ(workers("cpu[slow=2.0]"), 1);
  EXPECT_EQ(workers(nullptr), 0);
}

TEST(RunView, ExposedIsCommunicationAndWaitOverAllWorkers) {
  Json record = synthetic_record({.workers = 2});
  for (auto& rank : record["ranks"]) {
    rank["ledger_ms"] = {{"forward", 6.0}, {"communication", 3.0}, {"wait", 1.0}};
    rank["wall_ms"] = 10.0;
  }
  record["ranks"][1]["ledger_ms"]["wait"] = 3.0;
  const std::vector<Json> records{record};
  EXPECT_NEAR(*view_runs(records).front().exposed_share(), 0.5, 1e-12);
}

TEST(RunView, NewestStudyFirstThenByStart) {
  const std::vector<Json> records{synthetic_record({.study = "old", .number = 1}),
                                  synthetic_record({.study = "new", .number = 9}),
                                  synthetic_record({.study = "new", .number = 3})};
  const auto views = view_runs(records);
  EXPECT_EQ(views[0].study, "new");
  EXPECT_LT(views[0].started, views[1].started);
  EXPECT_EQ(views[2].study, "old");
}

TEST(RunView, TellsRepeatsAndPeersApart) {
  const std::vector<Json> records{synthetic_record({}), synthetic_record({.number = 1}),
                                  synthetic_record({.subject = "torch-ddp", .number = 2})};
  const auto views = view_runs(records);
  EXPECT_EQ(views[0].label, "lenet, 1 worker #1");
  EXPECT_EQ(views[1].label, "lenet, 1 worker #2");
  EXPECT_EQ(views[2].label, "lenet, 1 worker, torch-ddp");
  EXPECT_EQ(views[2].series, "1 worker, torch-ddp");
}

TEST(Comparison, IsAgainstTheOneWorkerRunOfTheSameSubject) {
  auto records = synthetic_study();
  records.push_back(synthetic_record({.workers = 2, .subject = "torch-ddp", .number = 8}));
  auto views = view_runs(records);
  compare(views);
  EXPECT_DOUBLE_EQ(*views[0].speedup, 1);
  EXPECT_NEAR(*views[1].speedup, views[1].throughput->median / views[0].throughput->median, 1e-12);
  EXPECT_NEAR(*views[1].efficiency, *views[1].speedup / 2, 1e-12);
  EXPECT_LT(*views[1].speedup_low, *views[1].speedup);
  EXPECT_NEAR(*views[4].speedup, views[4].throughput->median / views[3].throughput->median, 1e-12);
  EXPECT_FALSE(views[6].speedup) << "a peer is not compared with our single worker";
  EXPECT_EQ(group_runs(views).size(), 2u);
}

TEST(Comparison, RunsWithGraphsAndWithoutAreNotAlike) {
  for (const int steps : {0, 97}) {
    auto alone = synthetic_record({});
    alone["config"]["graphs"] = "on";
    alone["ranks"][0]["graphs"] = {{"steps", steps}};
    const std::vector<Json> records{alone, synthetic_record({.workers = 2, .number = 1})};  // of before there were such
    auto views = view_runs(records);
    compare(views);
    EXPECT_EQ(views[1].speedup.has_value(), steps == 0);
  }
}

TEST(Comparison, FailedAndOtherBatchesAreNoBaseline) {
  auto failed = failed_record({}, "out of memory");
  auto other = synthetic_record({.number = 1});
  other["config"]["batch"] = 128;
  const std::vector<Json> records{failed, other, synthetic_record({.workers = 2, .number = 2})};
  auto views = view_runs(records);
  compare(views);
  EXPECT_FALSE(views[2].speedup);
  EXPECT_FALSE(views[0].speedup);
}

}  // namespace
}  // namespace ddl
