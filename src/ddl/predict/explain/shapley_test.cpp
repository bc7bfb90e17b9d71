#include "ddl/predict/explain/shapley.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ddl/core/error.h"

namespace ddl {
namespace {

// The glove game: players 0 and 1 have a left glove each, player 2 a right one; a pair is worth 1. Shapley: 1/6, 1/6, 2/3.
TEST(Shapley, GlovesAreSharedAsPublished) {
  std::vector<double> worth(8);
  for (std::size_t set = 0; set < worth.size(); ++set) worth[set] = (set & 4) != 0 && (set & 3) != 0 ? 1 : 0;
  const auto values = shapley_values(3, worth);
  EXPECT_NEAR(values[0], 1.0 / 6, 1e-12);
  EXPECT_NEAR(values[1], 1.0 / 6, 1e-12);
  EXPECT_NEAR(values[2], 2.0 / 3, 1e-12);
}

TEST(Shapley, ValuesAddUpAndWhoAddsNothingHasNothing) {
  std::vector<double> worth(32);
  for (std::size_t set = 0; set < worth.size(); ++set) worth[set] = 1.5 + static_cast<double>((set & 7) * (set & 7)) + ((set & 16) != 0 ? 4 : 0);
  const auto values = shapley_values(5, worth);
  EXPECT_NEAR(std::accumulate(values.begin(), values.end(), 0.0), worth[31] - worth[0], 1e-9);
  EXPECT_NEAR(values[3], 0, 1e-12);
  EXPECT_NEAR(values[4], 4, 1e-12);
}

TEST(Shapley, WantsTheWorthOfEverySet) {
  EXPECT_TRUE(shapley_values(0, {1.0}).empty());
  EXPECT_THROW(shapley_values(2, {1.0, 2.0}), Error);
}

}  // namespace
}  // namespace ddl
