#include "ddl/train/bucket_tuner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace ddl {
namespace {

constexpr std::int64_t kLong = 10'000;

struct Way {
  Bucketing way;
  double seconds;
};

/// Steps as they would be each way, by turns a little slower; the first of a turn, whose buckets are new, is slow. `noise`: by step, a factor.
BucketTuner tuned(const std::vector<Way>& ways, std::int64_t steps = kLong, const std::function<double(std::int64_t)>& noise = [](std::int64_t) { return 1.; }) {
  std::vector<Bucketing> all;
  for (const auto& each : ways) all.push_back(each.way);
  BucketTuner tuner(all, steps);
  Bucketing before{0, false};
  double drift = 1;
  for (std::int64_t step = 0; tuner.tries(); ++step) {
    const auto way = tuner.way();
    const auto own = std::find_if(ways.begin(), ways.end(), [&](const Way& each) { return each.way == way; });
    tuner.add(own->seconds * drift * noise(step) * (way == before ? 1 : 20));
    if (tuner.round_is_over()) tuner.judge();
    before = way;
    drift *= 1.001;
  }
  return tuner;
}

TEST(BucketTuner, TakesTheFastest) {
  EXPECT_EQ(tuned({{{25}, 0.011}, {{1}, 0.012}, {{6}, 0.010}}).way(), (Bucketing{6}));
  EXPECT_EQ(tuned({{{25}, 0.011}, {{1}, 0.010}, {{6}, 0.012}}).way(), (Bucketing{1}));
  EXPECT_EQ(tuned({{{25}, 0.011}, {{1}, 0.0108}, {{6}, 0.0106}, {{100}, 0.0104}}).way(), (Bucketing{100})) << "not the first that is fast enough";
  EXPECT_EQ(tuned({{{25}, 0.011}, {{1}, 0.012}, {{25, false}, 0.010}}).way(), (Bucketing{25, false}));
}

TEST(BucketTuner, StaysWithTheStandardWhereNothingTellsThemApart) {
  EXPECT_EQ(tuned({{{25}, 0.010}, {{1}, 0.00995}, {{6}, 0.010}}).way(), (Bucketing{25})) << "half of a hundredth";
  EXPECT_EQ(tuned({{{25}, 0.010}, {{1}, 0.010}, {{25, false}, 0.010}}).way(), (Bucketing{25}));
}

TEST(BucketTuner, TriesNothingInAShortRunOrWithOneWay) {
  for (const auto& tuner : {BucketTuner({{25}, {1}, {6}}, 71), BucketTuner({{7}}, kLong)}) {
    EXPECT_FALSE(tuner.tries());
    EXPECT_EQ(tuner.json().at("steps"), 0);
    EXPECT_TRUE(tuner.json().at("sizes").at(0).at("step_ms").is_null());
    EXPECT_EQ(tuner.way(), tuner.json().at("sizes").size() == 1 ? (Bucketing{7}) : (Bucketing{25}));
  }
  EXPECT_TRUE(BucketTuner({{25}, {1}, {6}}, 72).tries());
}

TEST(BucketTuner, GoesOnWithThoseThatMayBeFasterAlone) {
  const auto told = tuned({{{25}, 0.011}, {{1}, 0.012}, {{6}, 0.010}}).json();
  EXPECT_EQ(told.at("steps"), 18 + 3 * 12);
  EXPECT_EQ(told.at("sizes").at(1).at("turns"), 2);
  EXPECT_EQ(told.at("sizes").at(2).at("turns"), 8);
  EXPECT_EQ(tuned({{{25}, 0.010}, {{1}, 0.012}, {{6}, 0.012}}).json().at("steps"), 18) << "nobody left";
  EXPECT_EQ(tuned({{{25}, 0.011}, {{1}, 0.012}, {{6}, 0.010}}, 4 * 18 + 4 * 12).json().at("steps"), 18 + 12) << "a quarter of the run";
}

// One is faster while a neighbour has the machine during the other's turns, and is not when that is over.
TEST(BucketTuner, IsNotTakenInByOneRound) {
  const auto noise = [](std::int64_t step) { return step < 3 || (step >= 9 && step < 12) ? 1.3 : 1.; };
  EXPECT_EQ(tuned({{{25}, 0.010}, {{1}, 0.010}}, 4 * 12, noise).way(), (Bucketing{1})) << "all that is known in a short run";
  EXPECT_EQ(tuned({{{25}, 0.010}, {{1}, 0.010}}, kLong, noise).way(), (Bucketing{25}));
}

TEST(BucketTuner, TellsWhatItTried) {
  const auto told = tuned({{{25}, 0.011}, {{1}, 0.012}, {{6}, 0.010}, {{25, false}, 0.0115}}).json();
  EXPECT_EQ(told.at("taken"), 6);
  EXPECT_EQ(told.at("overlap"), true);
  ASSERT_EQ(told.at("sizes").size(), 4U);
  EXPECT_EQ(told.at("sizes").at(2).at("bytes"), 6);
  EXPECT_NEAR(told.at("sizes").at(2).at("step_ms").get<double>(), 10, 0.5);
  EXPECT_EQ(told.at("sizes").at(3).at("overlap"), false);
  EXPECT_EQ(told.at("sizes").at(0).at("over_standard"), 1);
  EXPECT_NEAR(told.at("sizes").at(2).at("over_standard").get<double>(), 10. / 11, 0.01);
}

TEST(BucketTuner, CountsStepsOfARoundThatIsNotOver) {
  BucketTuner tuner({{25}, {1}}, kLong);
  for (int step = 0; step < 4; ++step) tuner.add(0.01);
  tuner.skip();
  EXPECT_EQ(tuner.json().at("steps"), 5);
  EXPECT_EQ(tuner.json().at("taken"), 1) << "what the next step would have had";
  EXPECT_TRUE(tuner.json().at("sizes").at(0).at("over_standard").is_null());
}

// What counts is the slowest worker of each step, which only all together know.
TEST(BucketTuner, FollowsWhatItIsToldOfAll) {
  BucketTuner tuner({{25}, {1}}, kLong);
  while (tuner.tries()) {
    tuner.add(tuner.way().bytes == 1 ? 0.009 : 0.010);
    if (!tuner.round_is_over()) continue;
    for (auto& each : tuner.round()) each = each < 0.0095 ? 0.012 : each;
    tuner.judge();
  }
  EXPECT_EQ(tuner.way(), (Bucketing{25}));
}

}  // namespace
}  // namespace ddl
