#include "ddl/train/bucket_tuner.h"

#include <gtest/gtest.h>

#include <map>

namespace ddl {
namespace {

/// Steps as they would be with each size; the first of a row, whose buckets are new, is slow.
BucketTuner tuned(const std::map<std::int64_t, double>& takes, std::int64_t standard, std::int64_t steps = 1000) {
  std::vector<std::int64_t> sizes;
  for (const auto& [size, seconds] : takes) sizes.push_back(size);
  BucketTuner tuner(sizes, standard, steps);
  std::int64_t before = 0;
  double drift = 1;
  while (tuner.tries()) {
    const auto size = tuner.size();
    tuner.add(takes.at(size) * drift * (size != before ? 20 : 1));
    before = size;
    drift *= 1.001;
  }
  tuner.settle();
  return tuner;
}

TEST(BucketTuner, TakesTheFastest) {
  EXPECT_EQ(tuned({{1, 0.012}, {6, 0.010}, {25, 0.011}}, 25).size(), 6);
  EXPECT_EQ(tuned({{1, 0.010}, {6, 0.012}, {25, 0.011}}, 25).size(), 1);
  EXPECT_EQ(tuned({{1, 0.012}, {6, 0.012}, {25, 0.011}, {100, 0.0105}}, 25).size(), 100);
}

TEST(BucketTuner, StaysWithTheStandardWhereNothingTellsThemApart) {
  EXPECT_EQ(tuned({{1, 0.00995}, {6, 0.010}, {25, 0.010}}, 25).size(), 25) << "half of a hundredth";
  EXPECT_EQ(tuned({{1, 0.010}, {6, 0.010}, {25, 0.010}}, 25).size(), 25);
}

TEST(BucketTuner, TriesNothingInAShortRunOrWithOneSize) {
  for (const auto& tuner : {BucketTuner({1, 6, 25}, 25, 71), BucketTuner({7}, 7, 1000)}) {
    EXPECT_FALSE(tuner.tries());
    EXPECT_EQ(tuner.json().at("steps"), 0);
    EXPECT_TRUE(tuner.json().at("sizes").at(0).at("step_ms").is_null());
  }
  EXPECT_EQ(BucketTuner({1, 6, 25}, 25, 71).size(), 25);
  EXPECT_TRUE(BucketTuner({1, 6, 25}, 25, 72).tries());
}

TEST(BucketTuner, TellsWhatItTried) {
  const auto told = tuned({{1, 0.012}, {6, 0.010}, {25, 0.011}}, 25).json();
  EXPECT_EQ(told.at("steps"), 18);
  EXPECT_EQ(told.at("taken"), 6);
  ASSERT_EQ(told.at("sizes").size(), 3U);
  EXPECT_EQ(told.at("sizes").at(1).at("bytes"), 6);
  EXPECT_NEAR(told.at("sizes").at(1).at("step_ms").get<double>(), 10, 0.2);
}

// What counts is the slowest worker of each step, which only all together know.
TEST(BucketTuner, FollowsWhatItIsToldOfAll) {
  BucketTuner tuner({1, 25}, 25, 1000);
  while (tuner.tries()) tuner.add(tuner.size() == 1 ? 0.009 : 0.010);
  for (auto& each : tuner.seconds()) each = each < 0.0095 ? 0.012 : each;
  tuner.settle();
  EXPECT_EQ(tuner.size(), 25);
}

}  // namespace
}  // namespace ddl
