#include "ddl/report/words.h"

#include <cmath>

#include <gtest/gtest.h>

#include "ddl/report/report.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

std::string finding_of(const std::vector<Json>& records) {
  auto views = view_runs(records);
  compare(views);
  return finding(group_runs(views).front());
}

Json with_rate(Json record, double median, double spread) {
  record["throughput"] = {{"median", median}, {"low", median - spread}, {"high", median + spread}};
  return record;
}

TEST(Finding, SaysHowMuchFasterAndWhatItCosts) {
  auto two = with_rate(synthetic_record({.workers = 2, .number = 1}), 1620, 5);
  for (auto& rank : two["ranks"]) {
    rank["wall_ms"] = 100;
    rank["ledger_ms"] = {{"forward", 79}, {"communication", 16}, {"wait", 5}};
  }
  EXPECT_EQ(finding_of({with_rate(synthetic_record({}), 1000, 5), two}),
            "Two workers over shm train lenet 1.62x as fast as one; 21 % of each step is exposed communication.");
}

TEST(Finding, ClaimsNothingThatTheIntervalsDoNotCarry) {
  const auto one = with_rate(synthetic_record({}), 1000, 50);
  const auto two = synthetic_record({.workers = 2, .number = 1});
  EXPECT_NE(finding_of({one, with_rate(two, 1020, 50)}).find("no faster than one (1.02x, within the noise)"),
            std::string::npos);
  EXPECT_NE(finding_of({one, with_rate(two, 600, 10)}).find("more slowly than one (0.60x its speed)"),
            std::string::npos);
}

TEST(Finding, SpeaksOfRatesWithoutABaselineAndOfNothingWithoutSuccess) {
  EXPECT_EQ(finding_of({with_rate(synthetic_record({}), 1000, 5)}), "One worker trains lenet at 1,000 samples/s.");
  EXPECT_EQ(finding_of({failed_record({}, "out of memory")}), "");
}

TEST(Shares, AddUpToAHundredPercent) {
  Json record = synthetic_record({});
  record["ranks"][0]["ledger_ms"] = {{"load", 1}, {"forward", 1}, {"backward", 1}, {"update", 3.0001}, {"residual", 1}};
  record["ranks"][0]["wall_ms"] = 7.0001;
  const std::vector<Json> records{record};
  double sum = 0;
  const auto all = shares(view_runs(records).front());
  for (const auto& part : all) sum += part.share;
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_EQ(all.back().cause, Cause::residual);
  EXPECT_EQ(all.front().cause, Cause::update);
}

TEST(Shares, AddUpForEveryRunOfTheStudy) {
  const auto records = synthetic_study();
  for (const auto& view : view_runs(records)) {
    double sum = 0;
    for (const auto& part : shares(view)) sum += part.share;
    EXPECT_NEAR(sum, 1, 1e-9) << view.label;
  }
}

TEST(WhereTimeWent, IsASentence) {
  Json record = synthetic_record({.workers = 2});
  for (auto& rank : record["ranks"]) {
    rank["wall_ms"] = 4.10;
    rank["overlapped_communication_ms"] = 0.732;
    rank["ledger_ms"] = {{"load", 0.0041},         {"copy", 0.0082},    {"forward", 1.107}, {"backward", 1.968},
                         {"communication", 0.468}, {"wait", 0.5283},    {"bubble", 0},      {"update", 0},
                         {"harness", 0},           {"residual", 0.0164}};
  }
  EXPECT_EQ(
      render_where_time_went({record}),
      "lenet, 2 workers, shm: of 4.10 ms a step, backward took 48.0 %, forward 27.0 %, waiting for the other worker "
      "12.9 %, exposed communication 11.4 %, copying and waiting for data 0.3 % together; residual 0.4 %. "
      "Communication was busy 1.20 ms a step, 61 % of it hidden behind compute.\n");
}

TEST(WhereTimeWent, NamesTheLateWorker) {
  Json record = synthetic_record({.workers = 2});
  record["ranks"][0]["ledger_ms"]["wait"] = 0;
  record["ranks"][1]["ledger_ms"]["wait"] = record["ranks"][1]["wall_ms"].get<double>() * 0.3;
  EXPECT_NE(render_where_time_went({record}).find("rank 0 is the late one"), std::string::npos);
}

TEST(WhereTimeWent, SaysWhyThereIsNothing) {
  EXPECT_EQ(render_where_time_went({failed_record({}, "rank 1 ended by signal 9 (SIGKILL)")}),
            "lenet, 1 worker: failed: rank 1 ended by signal 9 (SIGKILL).\n");
  Json peer = synthetic_record({.subject = "torch-ddp"});
  peer["ranks"] = nullptr;
  EXPECT_NE(render_where_time_went({peer}).find("torch-ddp does not record where its time goes"), std::string::npos);
  EXPECT_NO_THROW(render_where_time_went({Json::object(), {{"ranks", {Json::object()}}}}));
}

TEST(Failures, CountsWhatDidNotSucceed) {
  auto records = synthetic_study();
  records[0] = failed_record({}, "x");
  records[1] = failed_record({.number = 1}, "y", "skipped");
  EXPECT_EQ(failures(view_runs(records)), "Of 6 runs, one failed and one is skipped.");
  const auto good = synthetic_study();
  EXPECT_EQ(failures(view_runs(good)), "");
}

}  // namespace
}  // namespace ddl
