#include "ddl/report/precision.h"

#include <gtest/gtest.h>

#include "ddl/report/report.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

Json reached(const std::string& precision, int seed, double accuracy) {
  auto record = synthetic_record({});
  record["config"]["precision"] = precision;
  record["config"]["seed"] = seed;
  record["accuracy"]["top1"] = accuracy;
  return record;
}

std::vector<std::string> findings_of(const std::vector<Json>& records) {
  const auto views = view_runs(records);
  return precision_findings(group_runs(views).front());
}

TEST(Precision, IsSetBesideFp32SeedBySeed) {
  std::vector<Json> records;
  for (int seed = 1; seed <= 6; ++seed) {
    const double fp32 = 0.90 + 0.01 * seed;
    records.push_back(reached("fp32", seed, fp32));
    records.push_back(reached("bf16", seed, fp32 + (seed == 2 ? 0.0025 : -0.005)));
    records.push_back(reached("fp16", seed, fp32 - 0.0025 * seed));
  }
  EXPECT_EQ(findings_of(records),
            (std::vector<std::string>{"lenet in bf16 reaches 93.12 %, fp32 93.50 % (means of 6 and 6 runs); seed by seed it differs by -0.50 to +0.25 points: "
                                      "not told apart.",
                                      "lenet in fp16 reaches 92.62 %, fp32 93.50 % (means of 6 and 6 runs); seed by seed it differs by -1.50 to -0.25 points: "
                                      "it is worse with every seed."}));
}

TEST(Precision, FewSeedsTellNothing) {
  std::vector<Json> five;
  for (int seed = 1; seed <= 5; ++seed)
    for (const auto* precision : {"fp32", "fp16"}) five.push_back(reached(precision, seed, precision[2] == '3' ? 0.9 : 0.8));
  EXPECT_TRUE(findings_of(five).front().ends_with("seed by seed it differs by -10.00 to -10.00 points: fewer than 6 seeds do not tell them apart.")) << findings_of(five).front();
  const auto one = findings_of({reached("fp32", 1, 0.9), reached("bf16", 1, 0.8)});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_NE(one[0].find("with the same seed it differs by -10.00 points: one seed does not tell them apart."), std::string::npos) << one[0];
  const auto others = findings_of({reached("fp32", 1, 0.9), reached("bf16", 2, 0.8)});
  EXPECT_EQ(others, std::vector<std::string>{"lenet in bf16 reaches 80.00 %, fp32 90.00 % (means of 1 and 1 runs)."});
}

TEST(Precision, NothingIsSaidWithoutBoth) {
  EXPECT_TRUE(findings_of({reached("bf16", 1, 0.9)}).empty());
  EXPECT_TRUE(findings_of({reached("fp32", 1, 0.9), reached("fp32", 2, 0.9)}).empty());
  auto failed = reached("bf16", 1, 0.9);
  failed["state"] = "failed";
  EXPECT_TRUE(findings_of({reached("fp32", 1, 0.9), failed}).empty());
}

// On the page and behind the table.
TEST(Precision, IsInTheReport) {
  const std::vector<Json> records{reached("fp32", 1, 0.9), reached("bf16", 1, 0.8)};
  for (const auto& text : {render_report(records), render_precisions(records)}) EXPECT_NE(text.find("lenet in bf16 reaches 80.00 %, fp32 90.00 %"), std::string::npos);
  EXPECT_EQ(render_precisions({reached("fp32", 1, 0.9)}), "");
}

}  // namespace
}  // namespace ddl
