#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/data/loader.h"

namespace ddl {
namespace {

TEST(Sampler, WorkersTogetherTakeEveryIndexOnceAnEpoch) {
  for (const std::int64_t n : {9, 10, 64, 97})
    for (const std::int64_t batch : {1, 2, 7, 64, 200})
      for (const int workers : {1, 2, 3, 8, 9}) {
        const Sampler sampler(n, batch, workers, true, 3), alone(n, batch, 1, true, 3);
        EXPECT_EQ(sampler.steps_per_epoch(), (n + batch - 1) / batch);
        for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
          std::vector<std::int64_t> seen;
          for (std::int64_t s = 0; s < sampler.steps_per_epoch(); ++s) {
            const auto step = epoch * sampler.steps_per_epoch() + s;
            std::vector<std::int64_t> together;
            std::size_t least = SIZE_MAX, most = 0;
            for (int worker = 0; worker < workers; ++worker) {
              const auto share = sampler.share(step, worker);
              together.insert(together.end(), share.indices.begin(), share.indices.end());
              least = std::min(least, share.indices.size());
              most = std::max(most, share.indices.size());
              EXPECT_EQ(share.global_samples, std::min(batch, n - s * batch));
            }
            EXPECT_LE(most - least, 1U);
            EXPECT_EQ(together, alone.share(step, 0).indices);
            seen.insert(seen.end(), together.begin(), together.end());
          }
          EXPECT_EQ(seen, sampler.order(epoch));
          std::sort(seen.begin(), seen.end());
          for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(seen.at(static_cast<std::size_t>(i)), i);
        }
      }
}

TEST(Sampler, PartsInProportionsAddUp) {
  const std::vector<std::int64_t> proportions{5, 2, 1};
  const Sampler sampler(50, 16, 3, true, 3, {}, proportions), alone(50, 16, 1, true, 3);
  for (std::int64_t step = 0; step < 2 * sampler.steps_per_epoch(); ++step) {
    std::vector<std::int64_t> together;
    for (int worker = 0; worker < 3; ++worker) {
      const auto share = sampler.share(step, worker);
      together.insert(together.end(), share.indices.begin(), share.indices.end());
      EXPECT_LT(std::abs(static_cast<double>(share.indices.size()) - static_cast<double>(share.global_samples * proportions[static_cast<std::size_t>(worker)]) / 8.0), 1) << worker;
      EXPECT_EQ(share.weight, static_cast<std::int64_t>(share.indices.size()));
    }
    EXPECT_EQ(together, alone.share(step, 0).indices);
  }
  EXPECT_EQ(sampler.share(0, 0).indices.size(), 10U);
  EXPECT_EQ(sampler.share(0, 1).indices.size(), 4U);
  EXPECT_THROW(Sampler(50, 16, 3, true, 3, {}, {1, 2}), Error);
  EXPECT_THROW(Sampler(50, 16, 2, true, 3, {}, {1, 0}), Error);
}

TEST(Sampler, ShufflesAnewEachEpochAndOnlyThen) {
  const Sampler sampler(100, 10, 2, true, 1), again(100, 10, 2, true, 1), other(100, 10, 2, true, 2);
  EXPECT_NE(sampler.order(0), sampler.order(1));
  EXPECT_NE(sampler.order(0), other.order(0));
  EXPECT_EQ(sampler.order(5), again.order(5));
  EXPECT_EQ(sampler.share(57, 1).indices, again.share(57, 1).indices);
  const Sampler plain(100, 10, 2, false, 1);
  EXPECT_EQ(plain.share(11, 1).indices, (std::vector<std::int64_t>{15, 16, 17, 18, 19}));
}

TEST(Sampler, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(Sampler(0, 1, 1, true, 1), Error);
  EXPECT_THROW(Sampler(1, 0, 1, true, 1), Error);
  EXPECT_THROW(Sampler(1, 1, 0, true, 1), Error);
  try {
    Sampler(3, 10, 4, true, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[sampler] more workers than samples; got 4 workers, expected at most 3");
  }
}

TEST(Sampler, SharesOneCacheAmongThreads) {
  const Sampler sampler(1000, 10, 1, true, 1);
  std::vector<std::thread> threads;
  for (std::int64_t t = 0; t < 4; ++t)
    threads.emplace_back([&sampler, t] {
      for (std::int64_t step = 0; step < 400; ++step)
        EXPECT_EQ(sampler.share(step + 100 * t, 0).indices.size(), 10U);
    });
  for (auto& thread : threads) thread.join();
}

TEST(Sampler, AddsUpTheWeightsOfTheGlobalBatch) {
  const Sampler sampler(10, 4, 2, true, 3, [](std::int64_t index) { return index + 1; });
  for (std::int64_t step = 0; step < 6; ++step) {
    std::int64_t expected = 0;
    for (int worker = 0; worker < 2; ++worker)
      for (const auto index : sampler.share(step, worker).indices) expected += index + 1;
    for (int worker = 0; worker < 2; ++worker) EXPECT_EQ(sampler.share(step, worker).global_weight, expected) << step;
  }
  EXPECT_EQ(Sampler(10, 4, 2, true, 3).share(2, 1).global_weight, 2);
}

}  // namespace
}  // namespace ddl
