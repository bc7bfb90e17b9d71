#include "ddl/train/learning_rate.h"

#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

constexpr double kPeak = 0.4;
constexpr std::int64_t kSteps = 1000, kPerEpoch = 100;

LearningRate schedule(const char* text) { return {parse_spec(text), kPeak, kSteps, kPerEpoch}; }

TEST(LearningRate, ConstantStays) {
  for (const std::int64_t step : {0, 1, 999}) EXPECT_EQ(schedule("constant").at(step), kPeak);
}

TEST(LearningRate, WarmUpClimbsInEqualStepsToThePeak) {
  for (const auto* text : {"constant[warmup=50]", "cosine[warmup=50]", "inverse-sqrt[warmup=50]", "step[every=100,warmup=0.5epochs]"}) {
    const auto rate = schedule(text);
    for (std::int64_t step = 0; step < 50; ++step) EXPECT_DOUBLE_EQ(rate.at(step), kPeak * static_cast<double>(step + 1) / 50) << text;
    EXPECT_LE(rate.at(50), kPeak) << text;
    EXPECT_GT(rate.at(50), 0.98 * kPeak) << text;
  }
}

TEST(LearningRate, StepFallsByItsFactor) {
  for (const auto* text : {"step[every=3epochs]", "step[every=300]", "step[every=300steps,factor=0.1]"}) {
    const auto rate = schedule(text);
    EXPECT_EQ(rate.at(0), kPeak);
    EXPECT_EQ(rate.at(299), kPeak);
    EXPECT_DOUBLE_EQ(rate.at(300), kPeak * 0.1);
    EXPECT_DOUBLE_EQ(rate.at(600), kPeak * 0.01);
    EXPECT_DOUBLE_EQ(rate.at(999), kPeak * 0.001);
  }
  EXPECT_DOUBLE_EQ(schedule("step[every=1,factor=0.5]").at(10), kPeak / 1024);
}

TEST(LearningRate, CosineGoesFromThePeakToZero) {
  const auto plain = schedule("cosine");
  EXPECT_EQ(plain.at(0), kPeak);
  EXPECT_DOUBLE_EQ(plain.at(500), kPeak / 2);
  EXPECT_DOUBLE_EQ(plain.at(250), kPeak * (1 + std::sqrt(0.5)) / 2);
  EXPECT_NEAR(plain.at(1000), 0, 1e-16);
  const auto warm = schedule("cosine[warmup=2epochs]");
  EXPECT_EQ(warm.at(200), kPeak);
  EXPECT_DOUBLE_EQ(warm.at(600), kPeak / 2);
  EXPECT_NEAR(warm.at(1000), 0, 1e-16);
}

// With learning_rate = 1/sqrt(width * warmup) it is the paper's width^-0.5 min(s^-0.5, s warmup^-1.5), s counted from 1.
TEST(LearningRate, InverseSquareRootIsThatOfVaswani) {
  const double width = 512, warmup = 40;
  const LearningRate rate(parse_spec("inverse-sqrt[warmup=40]"), 1 / std::sqrt(width * warmup), kSteps, kPerEpoch);
  for (std::int64_t step = 0; step < kSteps; step += 7) {
    const auto s = static_cast<double>(step + 1);
    EXPECT_NEAR(rate.at(step), std::min(1 / std::sqrt(s), s * std::pow(warmup, -1.5)) / std::sqrt(width), 1e-15) << step;
  }
}

TEST(LearningRate, RefusesWhatItCannotFollow) {
  for (const auto* bad : {"cosin", "step", "step[every=0]", "step[every=3weeks]", "step[every=3,factor=2]", "inverse-sqrt", "inverse-sqrt[warmup=0]",
                          "constant[every=3]", "cosine[warmup=-1]", "cosine[warmup=soon]", "cosine[warmup=nan]"})
    EXPECT_THROW(schedule(bad), Error) << bad;
}

}  // namespace
}  // namespace ddl
