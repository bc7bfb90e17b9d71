#include "ddl/collective/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

namespace ddl {
namespace {

template <typename T>
constexpr ElementType type_of() {
  if constexpr (std::is_same_v<T, float>) return ElementType::fp32;
  if constexpr (std::is_same_v<T, double>) return ElementType::fp64;
  if constexpr (std::is_same_v<T, std::int32_t>) return ElementType::int32;
  return ElementType::int64;
}

template <typename T>
T reduced(ReduceOp op, T ours, T theirs, bool divides = false, std::int64_t divisor = 1) {
  reduce_kernel(op, type_of<T>(), divides)(reinterpret_cast<std::byte*>(&ours),
                                           reinterpret_cast<const std::byte*>(&theirs), 1, divisor);
  return ours;
}

template <typename T>
class ReduceKernels : public ::testing::Test {};
using Types = ::testing::Types<float, double, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(ReduceKernels, Types);

TYPED_TEST(ReduceKernels, DoEveryLengthAtEveryAlignment) {
  using T = TypeParam;
  for (const std::size_t length : {0U, 1U, 15U, 16U, 17U, 100U})
    for (const std::size_t shift : {0U, 1U, 3U}) {
      std::vector<T> ours(length + 1), values(length);
      std::vector<std::byte> theirs(length * sizeof(T) + shift + 1);
      for (std::size_t i = 0; i < length; ++i) {
        ours[i] = static_cast<T>(3 * i);
        values[i] = static_cast<T>(static_cast<T>(2 * i) - 50);
      }
      ours[length] = 77;
      if (length != 0) std::memcpy(theirs.data() + shift, values.data(), length * sizeof(T));
      const auto kernel = reduce_kernel(ReduceOp::sum, type_of<T>(), false);
      kernel(reinterpret_cast<std::byte*>(ours.data()), theirs.data() + shift, length, 1);
      for (std::size_t i = 0; i < length; ++i) EXPECT_EQ(ours[i], static_cast<T>(static_cast<T>(5 * i) - 50));
      EXPECT_EQ(ours[length], 77);
    }
}

TYPED_TEST(ReduceKernels, KnowTheirOperations) {
  using T = TypeParam;
  EXPECT_EQ(reduced<T>(ReduceOp::sum, 3, -5), -2);
  EXPECT_EQ(reduced<T>(ReduceOp::max, 3, -5), 3);
  EXPECT_EQ(reduced<T>(ReduceOp::min, 3, -5), -5);
  EXPECT_EQ(reduced<T>(ReduceOp::average, 3, -5), -2);
  EXPECT_EQ(reduced<T>(ReduceOp::average, 3, -15, true, 3), -4);
}

TEST(ReduceKernel, HidesNoNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    EXPECT_TRUE(std::isnan(reduced<float>(op, nan, 1)));
    EXPECT_TRUE(std::isnan(reduced<float>(op, 1, nan)));
  }
}

TEST(ReduceKernel, WrapsIntegersAround) {
  EXPECT_EQ(reduced<std::int32_t>(ReduceOp::sum, std::numeric_limits<std::int32_t>::max(), 1),
            std::numeric_limits<std::int32_t>::min());
}

}  // namespace
}  // namespace ddl
