#include "ddl/lab/batch_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace ddl {
namespace {

using Samples = std::vector<std::int64_t>;

TEST(BatchSplit, FollowsSpeed) {
  const std::vector<double> each{1, 3, 3, 3};
  const auto proportional = [&](int worker, std::int64_t samples) { return each[static_cast<std::size_t>(worker)] * static_cast<double>(samples); };
  EXPECT_EQ(balanced_batch(64, 4, proportional), (Samples{32, 10, 11, 11}));
  EXPECT_EQ(balanced_batch(60, 4, proportional), (Samples{30, 10, 10, 10}));
  EXPECT_EQ(balanced_batch(4, 4, proportional), (Samples{1, 1, 1, 1})) << "each has one";
  EXPECT_TRUE(balanced_batch(3, 4, proportional).empty());
  EXPECT_EQ(balanced_batch(7, 1, proportional), (Samples{7}));
  // Room for no more than so many.
  EXPECT_EQ(balanced_batch(64, 4, proportional, {20, 64, 64, 64}), (Samples{20, 14, 15, 15}));
  EXPECT_TRUE(balanced_batch(64, 4, proportional, {20, 20, 10, 10}).empty());
}

// Against every split of small batches: the last is done as early as it can be, with what each does before its first sample, too.
TEST(BatchSplit, IsTheBestOfAll) {
  for (const auto& [start, each] : {std::pair{std::vector<double>{0, 2, 5}, std::vector<double>{1, 1, 1}}, {{1, 0, 3}, {0.7, 2, 1.1}}, {{0.1, 0.1, 0.1}, {1, 1, 9}}})
    for (std::int64_t batch = 3; batch < 24; ++batch) {
      const auto seconds = [&](int worker, std::int64_t samples) { return start[static_cast<std::size_t>(worker)] + each[static_cast<std::size_t>(worker)] * static_cast<double>(samples); };
      const auto last = [&](const Samples& samples) { return std::max({seconds(0, samples[0]), seconds(1, samples[1]), seconds(2, samples[2])}); };
      double best = std::numeric_limits<double>::infinity();
      for (std::int64_t first = 1; first < batch - 1; ++first)
        for (std::int64_t second = 1; first + second < batch; ++second) best = std::min(best, last({first, second, batch - first - second}));
      const auto found = balanced_batch(batch, 3, seconds);
      ASSERT_EQ(found.size(), 3U);
      EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::int64_t{0}), batch);
      EXPECT_NEAR(last(found), best, 1e-9) << batch;
    }
}

}  // namespace
}  // namespace ddl
