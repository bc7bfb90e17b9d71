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
  EXPECT_EQ(found.cost.pieces.front().from, 0U);
  for (std::size_t i = 1; i < found.cost.pieces.size(); ++i) EXPECT_EQ(found.cost.pieces[i].from, found.cost.pieces[i - 1].to);
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
  // Between them both count, no size more than it is near.
  double before = 0;
  for (std::size_t bytes = 1 << 13; bytes <= 1 << 23; bytes += bytes / 3) {
    const double beta = found.cost.at(bytes).beta;
    EXPECT_GE(beta, 0.999 * before) << bytes;
    EXPECT_LT(beta, before == 0 ? 1.1e-10 : before + 0.8e-10) << bytes;
    before = beta;
  }
  EXPECT_NEAR(found.cost.at(1 << 18).beta, 4.5e-10, 0.6e-10);
}

TEST(Fit, IsJudgedByWhatWasHeldOutOfIt) {
  EXPECT_LT(held_out_error(made({5e-6, 1e-6, 1e-9, 2e-10, 4e-10, 3e-10}, 0, {1 << 10, 1 << 20})), 0.05);
  const auto noisy = made({2e-6, 0, 1e-9}, 0.2, {1 << 20});
  EXPECT_GT(held_out_error(noisy), fit(noisy).error);
  // One algorithm of a size tells nothing of others, however well it is fitted.
  EXPECT_LT(held_out_error({noisy.front()}), 0);
  EXPECT_LT(fit({noisy.front()}).error, 1e-6);
}

// What shared memory does in one pass is the same whoever is asked for: nothing at one size tells its rounds from its bytes.
TEST(Fit, GoesFromSizeToSizeWhereOneScheduleIsAllThereIs) {
  const auto counts = [](double bytes) { return Counts{2, 0, 2 * bytes, 0, 0, bytes}; };
  const auto took = [](double bytes) { return 4e-7 + bytes / (bytes < 6e6 ? 36e9 : 12e9); };  // out of the cache
  std::vector<FitSample> samples;
  const std::vector<std::size_t> sizes{1 << 10, 1 << 13, 1 << 16, 1 << 19, 1 << 22, 1 << 25};
  for (const auto bytes : sizes)
    for (const double noise : {0.99, 1.01}) samples.push_back({bytes, noise * took(static_cast<double>(bytes)), nullptr, counts(static_cast<double>(bytes))});
  const auto found = fit(samples);
  EXPECT_LT(found.error, 0.02);
  const auto priced = [&](double bytes) { return found.cost.at(static_cast<std::size_t>(bytes)).seconds(counts(bytes)); };
  for (const double bytes : {64., 3e3, 2e4, 1.6e5, 7e5, 1.6e6, 3.9e6, 1e8, 1e9}) EXPECT_NEAR(priced(bytes) / took(bytes), 1, 0.06) << bytes;
  // Where the cache ends is between two sizes: anywhere between what they say.
  EXPECT_GT(priced(1.2e7), took(4e6));
  EXPECT_LT(priced(1.2e7), took(3e7));
  // No buffer is cheaper than a smaller one by more than a step of a piece.
  for (double bytes = 100, before = 0; bytes < 1e9; bytes *= 1.1) {
    EXPECT_GT(priced(bytes), 0.85 * before) << bytes;
    before = priced(bytes);
  }
  EXPECT_NEAR(2 * found.cost.at(64).alpha, 4e-7, 5e-8);
  // One size that was disturbed says nothing of the others' rounds.
  auto disturbed = samples;
  for (auto& sample : disturbed)
    if (sample.bytes == 1 << 13) sample.seconds *= 20;
  EXPECT_NEAR(2 * fit(disturbed).cost.at(1 << 16).alpha, 4e-7, 5e-8);
  // Pieces follow each other without gaps.
  for (std::size_t i = 1; i < found.cost.pieces.size(); ++i) EXPECT_EQ(found.cost.pieces[i].from, found.cost.pieces[i - 1].to);
  EXPECT_EQ(found.cost.pieces.front().from, 0U);
  // One size alone, and sizes that begin where bytes are all there is.
  const auto one = fit({samples[8]});
  EXPECT_NEAR(one.cost.at(1 << 23).seconds(counts(1 << 23)) / (2 * samples[8].seconds), 1, 1e-6);
  const auto large = fit({samples[8], samples[10]});
  EXPECT_NEAR(large.cost.at(1 << 20).seconds(counts(1 << 20)) / (samples[8].seconds / 4), 1, 1e-6);
}

// A size of which one algorithm alone was timed, between others that tell rounds from bytes.
TEST(Fit, AsksItsNeighboursWhereASizeSaysOneThing) {
  const UnitCosts truth{5e-6, 0, 1e-9};
  auto samples = made(truth, 0, {1 << 12, 1 << 20});
  const auto between = made(truth, 0, {1 << 16});
  samples.push_back(between.front());
  const auto found = fit(samples);
  EXPECT_NEAR(found.cost.at(1 << 16).alpha, truth.alpha, 0.02 * truth.alpha);
  for (const auto& other : between) EXPECT_NEAR(price(other, found.cost.at(1 << 16)).seconds / other.seconds, 1, 0.03);
}

TEST(Fit, RefusesNonsense) {
  EXPECT_THROW(fit({}), Error);
  EXPECT_THROW(fit({{1024, 0.0, nullptr, {1, 1, 1024, 0}}}), Error);
}

}  // namespace
}  // namespace ddl
