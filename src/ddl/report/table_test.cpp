#include <gtest/gtest.h>

#include "ddl/core/text.h"
#include "ddl/report/format.h"
#include "ddl/report/report.h"
#include "ddl/report/synthetic_records.h"

namespace ddl {
namespace {

TEST(Table, HasARowPerRecordInAlignedColumns) {
  const auto lines = split(render_table(synthetic_study()), '\n');
  ASSERT_EQ(lines.size(), 3u + 6u + 1u);
  const auto state_at = lines[0].find("state");
  ASSERT_NE(state_at, std::string::npos);
  for (std::size_t row = 3; row < 9; ++row) {
    EXPECT_EQ(lines[row].find(" ok"), state_at - 1) << lines[row];
    EXPECT_LE(display_width(lines[row]), 160u);
  }
  EXPECT_NE(lines[3].find("1.00x"), std::string::npos);
  EXPECT_NE(lines[4].find("91.3 %"), std::string::npos);
  EXPECT_NE(lines[1].find("95 % interval"), std::string::npos);
}

TEST(Table, ShowsTheAccuracyOfWordsWithBleu) {
  auto records = synthetic_study();
  records[0]["accuracy"] = {{"tokens", 0.4567}, {"bleu", 23.45}, {"test_loss", 2.5}, {"epochs", {0.4567}}};
  EXPECT_NE(render_table(records).find("45.7 %, BLEU 23.4"), std::string::npos);
}

TEST(Table, ShowsReasonsAndPlaceholders) {
  const auto text = render_table({failed_record({.workers = 2}, "rank 1 ended by signal 9 (SIGKILL)")});
  EXPECT_NE(text.find("failed"), std::string::npos);
  EXPECT_NE(text.find("\n    rank 1 ended by signal 9 (SIGKILL)\n"), std::string::npos);
  EXPECT_EQ(text.find("nan"), std::string::npos);
}

TEST(Table, AlignsTextThatIsNotAscii) {
  auto records = synthetic_study();
  records[0]["case"] = "größer · 1";
  const auto lines = split(render_table(records), '\n');
  EXPECT_EQ(display_width(lines[3]), display_width(lines[4]));
}

TEST(Table, SetsUnequalBatchesApart) {
  const std::vector<Json> records{synthetic_record({}), synthetic_record({.workers = 2, .number = 1, .batch = 128}), synthetic_record({.workers = 2, .number = 2})};
  const auto lines = split(render_table(records), '\n');
  ASSERT_EQ(lines.size(), 3u + 2u + 3u + 1u + 1u);
  EXPECT_EQ(lines[3], "lenet on fashion-mnist, batch 64:");
  EXPECT_TRUE(lines[4].starts_with("lenet, 1 worker, batch 64"));
  EXPECT_TRUE(lines[5].starts_with("lenet, 2 workers, shm, batch 64"));
  EXPECT_EQ(lines[6], "lenet on fashion-mnist, batch 128:");
  EXPECT_TRUE(lines[8].starts_with("Global batches differ: only runs of the same one are compared"));
  const auto together = split(render_table(records, Batches::together), '\n');
  EXPECT_EQ(together.size(), 3u + 3u + 1u + 1u);
  EXPECT_NE(together[6].find("as was asked for"), std::string::npos);
}

TEST(Table, OfNothing) { EXPECT_EQ(render_table({}), "no runs\n"); }

}  // namespace
}  // namespace ddl
