#include "ddl/core/statistics.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/core/random.h"

namespace ddl {
namespace {

TEST(Statistics, QuantilesInterpolate) {
  const std::vector<double> values{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(median(values), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 1.75);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Statistics, IntervalCoversTheMedianAtItsLevel) {
  // 200 independent samples of 60 draws: a 95 % interval must hold the true median in most of them.
  int covered = 0;
  constexpr int kTrials = 200;
  for (int trial = 0; trial < kTrials; ++trial) {
    Random random(static_cast<std::uint64_t>(trial));
    std::vector<double> samples;
    for (int i = 0; i < 60; ++i) samples.push_back(random.normal());
    const auto interval = median_interval(samples, 400, 9);
    if (interval.low <= 0 && 0 <= interval.high) ++covered;
  }
  EXPECT_GE(covered, 176);  // 88 %: block resampling of so few draws is known to be a little narrow
  EXPECT_LT(covered, kTrials);
}

TEST(Statistics, IntervalOfOneSampleIsThatSample) {
  const std::vector<double> one{7};
  const auto interval = median_interval(one);
  EXPECT_EQ(interval.low, 7);
  EXPECT_EQ(interval.high, 7);
}

TEST(Statistics, CorrelationThatAFewOutliersDoNotMove) {
  Random random(5);
  for (const double correlation : {-0.5, 0.0, 0.6, 0.95}) {
    std::vector<double> a, b;
    for (int i = 0; i < 20'000; ++i) {
      const double common = random.normal();
      a.push_back(10 + 0.1 * common);
      b.push_back(3 + 2 * (correlation * common + std::sqrt(1 - correlation * correlation) * random.normal()));
    }
    for (int i = 0; i < 100; ++i) a[static_cast<std::size_t>(i)] = b[static_cast<std::size_t>(i)] = 1000;
    EXPECT_NEAR(robust_correlation(a, b), correlation, 0.05) << correlation;
    EXPECT_NEAR(spread(a), 0.1, 0.003);
  }
  EXPECT_EQ(robust_correlation(std::vector<double>{1, 1, 1, 1}, std::vector<double>{1, 2, 3, 4}), 0);
}

TEST(Statistics, WarmUpEndsAtTheChange) {
  std::vector<double> samples(50, 1.0);
  samples[0] = 9;
  samples[1] = 8;
  samples[2] = 9;
  EXPECT_EQ(warm_up_end(samples), 3U);
  EXPECT_EQ(warm_up_end(std::vector<double>(50, 1.0)), 0U);
  std::vector<double> slower_later(50, 1.0);
  for (std::size_t i = 40; i < 50; ++i) slower_later[i] = 3;
  EXPECT_EQ(warm_up_end(slower_later), 0U);
}

}  // namespace
}  // namespace ddl
