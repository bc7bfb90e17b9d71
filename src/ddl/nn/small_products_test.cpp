#include "ddl/nn/kernels/small_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ddl {
namespace {

/// Whole numbers, so that sums are exact in any order.
std::vector<float> numbers(std::size_t count, int seed) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>(static_cast<int>((i * 7919 + static_cast<std::size_t>(seed) * 104729) % 17) - 8);
  return out;
}

// Every number of rows that is left over, and columns on both sides of each width of vectors; rows that are apart, and left factors that lie either way.
TEST(SmallProducts, AreProducts) {
  constexpr std::int64_t kGap = 3;
  for (const std::int64_t m : {1, 2, 3, 4, 5, 6, 7, 12, 63})
    for (const std::int64_t n : {1, 3, 8, 15, 16, 17, 31, 33, 48, 63, 64, 65, 130})
      for (const std::int64_t k : {0, 1, 5, 64})
        for (const bool turned : {false, true})
          for (const bool adds : {false, true}) {
            const auto left = numbers(static_cast<std::size_t>((m + kGap) * (k + kGap)), 1), right = numbers(static_cast<std::size_t>(k * (n + kGap)), 2), before = numbers(static_cast<std::size_t>(m * (n + kGap)), 3);
            const SmallFactor factor{left.data(), turned ? 1 : k + kGap, turned ? m + kGap : 1};
            auto to = before;
            multiply_small(m, n, k, factor, right.data(), n + kGap, to.data(), n + kGap, adds);
            for (std::int64_t row = 0; row < m; ++row)
              for (std::int64_t column = 0; column < n + kGap; ++column) {
                const auto place = static_cast<std::size_t>(row * (n + kGap) + column);
                float expected = adds || column >= n ? before[place] : 0;
                for (std::int64_t i = 0; column < n && i < k; ++i) expected += factor.at[row * factor.row + i * factor.column] * right[static_cast<std::size_t>(i * (n + kGap) + column)];
                ASSERT_EQ(to[place], expected) << m << "x" << n << "x" << k << (turned ? " turned" : "") << (adds ? " adds" : "") << " at " << row << ", " << column;
              }
          }
}

TEST(SmallProducts, NothingIsNothing) {
  float to = 7;
  multiply_small(0, 1, 1, {nullptr, 1, 1}, nullptr, 1, &to, 1, false);
  multiply_small(1, 0, 1, {nullptr, 1, 1}, nullptr, 1, &to, 1, false);
  EXPECT_EQ(to, 7);
}

TEST(SmallProducts, Transpose) {
  for (const std::int64_t rows : {1, 15, 16, 40})
    for (const std::int64_t columns : {1, 16, 33}) {
      const auto from = numbers(static_cast<std::size_t>(rows * (columns + 2)), 4);
      std::vector<float> to(static_cast<std::size_t>(rows * columns), -1);
      transpose_small(rows, columns, from.data(), columns + 2, to.data());
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = 0; column < columns; ++column) ASSERT_EQ(to[static_cast<std::size_t>(column * rows + row)], from[static_cast<std::size_t>(row * (columns + 2) + column)]);
    }
}

}  // namespace
}  // namespace ddl
