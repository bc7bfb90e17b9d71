#include "ddl/core/random.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Random, RepeatsForTheSameSeedAndStreamOnly) {
  EXPECT_EQ(Random(1, 2).bits(), Random(1, 2).bits());
  EXPECT_NE(Random(1, 2).bits(), Random(1, 3).bits());
  EXPECT_NE(Random(1, 2).bits(), Random(2, 2).bits());
}

TEST(Random, SeveralAtOnceAreTheSameOneByOne) {
  Random one(3, 5), several(3, 5);
  for (const std::size_t count : {1U, 0U, 7U, 16U, 100U}) {
    std::vector<std::uint64_t> draws(count);
    several.fill(draws);
    for (const auto draw : draws) EXPECT_EQ(draw, one.bits());
  }
  EXPECT_EQ(several.bits(), one.bits());
}

TEST(Random, NormalHasItsMoments) {
  Random random(7);
  double sum = 0, squares = 0;
  constexpr int kDraws = 200'000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    squares += x * x;
  }
  // Five standard errors: 5/sqrt(n) for the mean, 5*sqrt(2/n) for the variance.
  EXPECT_NEAR(sum / kDraws, 0, 0.0112);
  EXPECT_NEAR(squares / kDraws, 1, 0.0159);
}

TEST(Random, PermutationHoldsEachIndexOnce) {
  auto order = permutation(1000, 3, 4);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (std::int64_t i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE(permutation(0, 1, 1).empty());
}

}  // namespace
}  // namespace ddl
