#include "ddl/report/comparison.h"

#include <gtest/gtest.h>

#include "ddl/report/synthetic_records.h"
#include "ddl/report/words.h"

namespace ddl {
namespace {

/// Weak scaling: 64 samples a worker.
std::vector<Json> weak() {
  std::vector<Json> records;
  for (const int workers : {1, 2, 4}) records.push_back(synthetic_record({.workers = workers, .number = workers, .batch = 64 * workers}));
  return records;
}

struct Compared {
  std::vector<Json> records;
  std::vector<RunView> views;
  std::vector<RunGroup> groups;
  Compared(std::vector<Json> made, Batches batches) : records(std::move(made)), views(view_runs(records)) {
    compare(views, batches);
    groups = group_runs(views, batches);
  }
};

TEST(UnequalBatches, StandApart) {
  const Compared apart(weak(), Batches::apart);
  ASSERT_EQ(apart.groups.size(), 3U);
  EXPECT_FALSE(apart.views[1].speedup) << "no one-worker run at its batch";
  std::vector<std::string> headings;
  for (const auto& section : sections(apart.groups)) {
    headings.push_back(section.heading);
    EXPECT_EQ(section.runs.size(), 1U);
  }
  EXPECT_EQ(headings, (std::vector<std::string>{"lenet on fashion-mnist, batch 64", "lenet on fashion-mnist, batch 128", "lenet on fashion-mnist, batch 256"}));
  EXPECT_NE(batches_note(apart.groups).find("only runs of the same one are compared"), std::string::npos);
  EXPECT_NE(finding(apart.groups[1]).find("Two workers over shm train lenet at batch 128 at "), std::string::npos) << finding(apart.groups[1]);
}

TEST(UnequalBatches, StandTogetherWhereAskedFor) {
  const Compared together(weak(), Batches::together);
  ASSERT_EQ(together.groups.size(), 1U);
  EXPECT_EQ(together.groups[0].title(), "lenet on fashion-mnist, batches 64, 128 and 256");
  EXPECT_EQ(together.views[2].baseline, together.views.data()) << "the same batch per worker";
  EXPECT_NE(batches_note(together.groups).find("as was asked for"), std::string::npos);
  EXPECT_NE(finding(together.groups[0]).find("as one at batch 64"), std::string::npos) << finding(together.groups[0]);
}

TEST(UnequalBatches, TheSameBatchIsTheBaselineBeforeTheSameShare) {
  auto records = weak();
  records.push_back(synthetic_record({.number = 9, .batch = 128}));
  const Compared together(records, Batches::together);
  EXPECT_EQ(together.views[1].baseline, &together.views[3]);
}

TEST(EqualBatches, NeedNoWord) {
  const Compared equal(synthetic_study(), Batches::apart);
  EXPECT_EQ(batches_note(equal.groups), "");
  ASSERT_EQ(sections(equal.groups).size(), 1U);
  EXPECT_EQ(sections(equal.groups)[0].heading, "");
  auto two = synthetic_study();
  for (std::size_t i = 0; i < 3; ++i) two[i]["study"] = "second";
  const Compared studies(two, Batches::apart);
  EXPECT_EQ(sections(studies.groups)[1].heading, "study second");
}

TEST(EqualBatches, TheFindingNamesItsStrategyWhereThereAreSeveral) {
  const Compared compared({synthetic_record({.strategy = "single"}), synthetic_record({.workers = 2, .number = 1, .strategy = "model"})}, Batches::apart);
  EXPECT_TRUE(finding(compared.groups[0]).starts_with("Two workers with strategy model over shm train lenet ")) << finding(compared.groups[0]);
}

}  // namespace
}  // namespace ddl
