#include "ddl/predict/step/jitter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ddl/core/error.h"
#include "ddl/core/random.h"
#include "ddl/core/statistics.h"

namespace ddl {
namespace {

// Two, three: exact. Others: Tippett's table (Biometrika 17, 1925), and Harter, Expected values of normal order statistics, Biometrika 48, 1961.
TEST(Jitter, TheLargestOfNormalVariablesHasTheKnownMean) {
  EXPECT_EQ(expected_maximum(1), 0);
  EXPECT_NEAR(expected_maximum(2), 1 / std::sqrt(std::numbers::pi), 1e-9);
  EXPECT_NEAR(expected_maximum(3), 1.5 / std::sqrt(std::numbers::pi), 1e-9);
  EXPECT_NEAR(expected_maximum(4), 1.02938, 1e-5);
  EXPECT_NEAR(expected_maximum(10), 1.53875, 1e-5);
  EXPECT_NEAR(expected_maximum(100), 2.50759, 1e-5);
  EXPECT_NEAR(expected_maximum(1000), 3.24144, 1e-5);
  EXPECT_THROW(expected_maximum(0), Error);
}

// 64 has no table here: against as many draws as tell it to a hundredth.
TEST(Jitter, TheLargestOf64IsWhatDrawingSays) {
  Random random(7);
  double sum = 0;
  constexpr int kTimes = 20'000;
  for (int i = 0; i < kTimes; ++i) {
    double most = random.normal();
    for (int k = 1; k < 64; ++k) most = std::max(most, static_cast<double>(random.normal()));
    sum += most;
  }
  EXPECT_NEAR(expected_maximum(64), sum / kTimes, 0.01);
}

TEST(Jitter, CorrelatedWorkersWaitLess) {
  EXPECT_DOUBLE_EQ((Jitter{0.1, 0}.own()), 0.1);
  EXPECT_DOUBLE_EQ((Jitter{0.1, 1}.own()), 0);
  EXPECT_NEAR((Jitter{0.1, 0.36}.own()), 0.08, 1e-12);
  // What was measured of few steps may come out a little below 0.
  EXPECT_DOUBLE_EQ((Jitter{0.1, -0.05}.own()), 0.1);
  // By drawing: the largest of four that have a part in common.
  Random random(3);
  const double correlation = 0.5;
  double sum = 0;
  constexpr int kTimes = 100'000;
  for (int i = 0; i < kTimes; ++i) {
    const double common = random.normal();
    double most = -1e9;
    for (int k = 0; k < 4; ++k) most = std::max(most, std::sqrt(correlation) * common + std::sqrt(1 - correlation) * random.normal());
    sum += most;
  }
  EXPECT_NEAR(sum / kTimes, (Jitter{1, correlation}.own() * expected_maximum(4)), 0.01);
}

TEST(Jitter, WhatComesAndGoesIsMoreOfShortWork) {
  const Jitter all{0.1, 0.36, 0.75, 4};
  EXPECT_NEAR(all.lasting(), 0.04, 1e-12);
  // Both together are its own of a whole step; variances, in s^2, add up over pieces.
  EXPECT_NEAR(std::hypot(all.lasting(), all.of_piece(4)), all.own(), 1e-12);
  EXPECT_NEAR(all.of_piece(1), 2 * all.of_piece(4), 1e-12);
  EXPECT_DOUBLE_EQ(all.of_piece(1e-6), 0.5);
  EXPECT_EQ(all.of_piece(0), 0);
  EXPECT_EQ((Jitter{0.1, 0}.of_piece(1)), 0);
}

TEST(Jitter, FewDrawsHaveTheMeanOfMany) {
  for (const int n : {1, 2, 4, 64, 100'000}) {
    const auto draws = draw_maxima(n, 32, 1, 0);
    EXPECT_NEAR(mean(draws), expected_maximum(n), 0.02) << n;
    EXPECT_EQ(draws, draw_maxima(n, 32, 1, 0));
    EXPECT_NE(draws, draw_maxima(n, 32, 1, 1));
  }
  EXPECT_THROW(draw_maxima(0, 3, 1, 0), Error);
  EXPECT_THROW(draw_maxima(2, 0, 1, 0), Error);
}

}  // namespace
}  // namespace ddl
