#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "ddl/report/plots.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

using Lines = std::map<std::string, std::vector<int>>;

/// Workers of each line's points, by the line's name.
Lines lines_of(const std::vector<Json>& records, Batches batches = Batches::apart) {
  auto views = view_runs(records);
  compare(views, batches);
  const auto plot = scaling_plot(group_runs(views, batches).front());
  Lines lines;
  if (!plot.present()) return lines;
  for (const auto& value : plot.specification["data"]["values"]) lines[value["series"].get<std::string>()].push_back(value["workers"].get<int>());
  for (auto& [name, workers] : lines) std::sort(workers.begin(), workers.end());
  EXPECT_EQ(plot.legend.size(), lines.size() + 1) << "and perfect scaling";
  return lines;
}

TEST(ScalingPlot, HasALinePerTransport) {
  auto records = synthetic_study();
  records.resize(3);
  EXPECT_EQ(lines_of(records), (Lines{{"data over shm", {1, 2}}, {"data over tcp", {1, 2}}}));
}

TEST(ScalingPlot, HasALinePerStrategyWithItsOptions) {
  std::vector<Json> records{synthetic_record({.strategy = "single"})};
  for (const auto* strategy : {"data", "pipeline[micro=4]", "pipeline[micro=8]"})
    for (const int workers : {2, 4}) records.push_back(synthetic_record({.workers = workers, .number = static_cast<int>(records.size()), .strategy = strategy}));
  EXPECT_EQ(lines_of(records), (Lines{{"data over shm", {1, 2, 4}}, {"pipeline[micro=4] over shm", {1, 2, 4}}, {"pipeline[micro=8] over shm", {1, 2, 4}}}));
}

TEST(ScalingPlot, BeginsWithOnesOwnWorkerWhereThereIsOne) {
  EXPECT_EQ(lines_of({synthetic_record({.strategy = "single"}), synthetic_record({.number = 1}), synthetic_record({.workers = 2, .number = 2})}),
            (Lines{{"data over shm", {1, 2}}}));
}

TEST(ScalingPlot, KeepsPrecisionsAndPackagesApart) {
  auto half = synthetic_record({.workers = 2, .number = 2});
  half["config"]["precision"] = "bf16";
  EXPECT_EQ(lines_of({synthetic_record({}), synthetic_record({.workers = 2, .number = 1}), half, synthetic_record({.subject = "torch-ddp", .number = 3}),
                      synthetic_record({.workers = 2, .subject = "torch-ddp", .number = 4})}),
            (Lines{{"data over shm, fp32", {1, 2}}, {"data over shm, bf16", {2}}, {"torch-ddp, fp32", {1, 2}}}));
}

TEST(ScalingPlot, JoinsBatchesOnlyWhereAskedForAndByTheirShare) {
  std::vector<Json> records;
  for (const int workers : {1, 2, 4}) records.push_back(synthetic_record({.workers = workers, .number = workers, .batch = 64 * workers}));
  EXPECT_TRUE(lines_of(records).empty());
  EXPECT_EQ(lines_of(records, Batches::together), (Lines{{"data over shm, 64 samples a worker", {1, 2, 4}}}));
  records.push_back(synthetic_record({.workers = 4, .number = 8, .batch = 64}));
  EXPECT_EQ(lines_of(records, Batches::together), (Lines{{"data over shm, batch 64", {1, 4}}, {"data over shm, batch 128", {1, 2}}, {"data over shm, batch 256", {1, 4}}}));
}

}  // namespace
}  // namespace ddl
