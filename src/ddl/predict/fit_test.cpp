#include "ddl/predict/fit.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "ddl/collective/algorithms.h"
#include "ddl/core/error.h"

namespace ddl {
namespace {

/// Times that the model itself gives, with a relative error of up to `noise`.
std::vector<FitSample> made(const UnitCosts& truth, double noise, const std::vector<std::size_t>& sizes) {
  std::vector<FitSample> samples;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> error(-noise, noise);
  for (const auto bytes : sizes)
    for (const auto registry = builtin_collectives(); const auto& entry : registry.entries()) {
      if (entry.make.goal == Goal::barrier) continue;
      CollectiveShape shape{4, bytes / 4};
      shape.peer = 1;
      const auto group = std::make_shared<ScheduleGroup>(group_schedules(entry.make.with({}), shape, 4));
      samples.push_back({bytes, price(*group, truth).seconds * (1 + error(random)), group});
    }
  return samples;
}

TEST(Fit, FindsWhatMadeTheTimes) {
  const UnitCosts truth{5e-6, 1e-6, 1e-9, 2e-10, 4e-10, 3e-10};
  const auto found = fit(made(truth, 0, {1 << 10, 1 << 16, 1 << 20, 1 << 24}));
  EXPECT_LT(found.error, 1e-6);
  ASSERT_EQ(found.cost.pieces.size(), 4U);
  EXPECT_EQ(found.cost.pieces.front().from, 0U);
  EXPECT_NEAR(found.cost.at(1 << 16).beta, truth.beta, 1e-3 * truth.beta);
  EXPECT_NEAR(found.cost.at(1 << 16).gamma, truth.gamma, 1e-2 * truth.gamma);
  EXPECT_NEAR(found.cost.at(1 << 10).alpha, truth.alpha, 0.02 * truth.alpha);
}

TEST(Fit, StaysNearUnderNoiseAndNeverGoesBelowZero) {
  const auto found = fit(made({2e-6, 0, 1e-9}, 0.05, {1 << 12, 1 << 16, 1 << 20}));
  EXPECT_LT(found.error, 0.06);
  for (const auto& piece : found.cost.pieces)
    for (const double cost : {piece.costs.alpha, piece.costs.overhead, piece.costs.beta, piece.costs.copy, piece.costs.gamma}) EXPECT_GE(cost, 0);
}

TEST(Fit, TakesCostsThatChangeWithSize) {
  auto samples = made({2e-6, 0, 1e-10}, 0, {1 << 10, 1 << 14});
  const auto large = made({2e-6, 0, 8e-10}, 0, {1 << 22, 1 << 26});
  samples.insert(samples.end(), large.begin(), large.end());
  const auto found = fit(samples);
  EXPECT_NEAR(found.cost.at(1 << 12).beta, 1e-10, 2e-12);
  EXPECT_NEAR(found.cost.at(1 << 25).beta, 8e-10, 2e-11);
}

TEST(Fit, IsJudgedByWhatWasHeldOutOfIt) {
  EXPECT_LT(held_out_error(made({5e-6, 1e-6, 1e-9, 2e-10, 4e-10, 3e-10}, 0, {1 << 10, 1 << 20})), 0.05);
  const auto noisy = made({2e-6, 0, 1e-9}, 0.2, {1 << 20});
  EXPECT_GT(held_out_error(noisy), fit(noisy).error);
  // One algorithm of a size tells nothing of others, however well it is fitted.
  EXPECT_LT(held_out_error({noisy.front()}), 0);
  EXPECT_LT(fit({noisy.front()}).error, 1e-6);
}

TEST(Fit, RefusesNonsense) {
  EXPECT_THROW(fit({}), Error);
  EXPECT_THROW(fit({{1024, 0.0, nullptr, {1, 1, 1024, 0}}}), Error);
}

}  // namespace
}  // namespace ddl
