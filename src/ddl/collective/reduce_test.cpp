#include "ddl/collective/reduce.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "ddl/collective/testing.h"

namespace ddl {
namespace {

using testing::element_type;
using testing::Number;

template <typename T>
T reduced(ReduceOp op, T ours, T theirs, const Scaling& scaling = {}) {
  reduce_into(op, element_type<T>(), reinterpret_cast<std::byte*>(&ours), reinterpret_cast<const std::byte*>(&theirs), 1, scaling);
  return ours;
}

/// Numbers in memory that begins `shift` bytes off, with one more behind them that must stay.
struct Values {
  Values(ElementType of, std::size_t count, std::size_t shift)
      : type(of), bytes((count + 1) * size_of(of) + shift), data(bytes.data() + shift) {
    set(count, 77);
  }
  double operator[](std::size_t i) const { return Number::read(type, data, i); }
  void set(std::size_t i, double value) { Number::write(type, data, i, value); }
  ElementType type;
  std::vector<std::byte> bytes;
  std::byte* data;
};

class Kernels : public ::testing::TestWithParam<ElementType> {};

TEST_P(Kernels, DoEveryLengthAtEveryAlignment) {
  for (const std::size_t length : {0U, 1U, 3U, 7U, 8U, 9U, 15U, 16U, 17U, 33U, 100U})
    for (const std::size_t shift : {0U, 1U, 3U}) {
      Values ours(GetParam(), length, shift), theirs(GetParam(), length, shift / 3);
      for (std::size_t i = 0; i < length; ++i) {
        ours.set(i, static_cast<double>(i % 50));
        theirs.set(i, 60.0 - static_cast<double>(i));
      }
      reduce_into(ReduceOp::sum, GetParam(), ours.data, theirs.data, length);
      for (std::size_t i = 0; i < length; ++i) ASSERT_EQ(ours[i], static_cast<double>(i % 50) + 60.0 - static_cast<double>(i)) << length << " " << i;
      EXPECT_EQ(ours[length], 77);
    }
}

TEST_P(Kernels, ReduceAnyNumberOfPlacesToAll) {
  for (const int count : {1, 2, 3, 4, 5, 9})
    for (const std::size_t length : {1U, 16U, 45U})
      for (const auto op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::average}) {
        std::vector<Values> values;
        std::vector<std::byte*> places;
        for (int k = 0; k < count; ++k) {
          auto& each = values.emplace_back(GetParam(), length, static_cast<std::size_t>(k));
          for (std::size_t i = 0; i < length; ++i) each.set(i, (k + 1) * static_cast<double>(i % 4 + 1) * 2);
        }
        for (auto& each : values) places.push_back(each.data);
        const int divisor = op == ReduceOp::average ? 2 : 1;
        reduce_all(op, GetParam(), places.data(), nullptr, count, length, divisor);
        for (std::size_t i = 0; i < length; ++i) {
          const double unit = static_cast<double>(i % 4 + 1) * 2;
          const double right = op == ReduceOp::max ? count * unit : op == ReduceOp::min ? unit : count * (count + 1) / 2.0 * unit / divisor;
          for (int k = 0; k < count; ++k) ASSERT_EQ(values[static_cast<std::size_t>(k)][i], right) << count << " " << length << " " << i;
        }
        for (const auto& each : values) EXPECT_EQ(each[length], 77);
      }
}

INSTANTIATE_TEST_SUITE_P(Types, Kernels, ::testing::ValuesIn(kElementTypes), [](const auto& test) { return std::string(name(test.param)); });

class WeightedKernels : public ::testing::TestWithParam<ElementType> {};

TEST_P(WeightedKernels, WeightEveryPlaceByItsFactor) {
  const double factors[] = {0.5, 2, 4};
  std::vector<Values> values;
  std::vector<std::byte*> places;
  for (int k = 0; k < 3; ++k) {
    auto& each = values.emplace_back(GetParam(), 21, 0);
    for (std::size_t i = 0; i < 21; ++i) each.set(i, static_cast<double>(k + 1));
  }
  for (auto& each : values) places.push_back(each.data);
  reduce_all(ReduceOp::weighted_sum, GetParam(), places.data(), factors, 3, 21, 1);
  EXPECT_EQ(values[1][20], 0.5 + 4 + 12);
  reduce_into(ReduceOp::weighted_sum, GetParam(), places[0], places[1], 21, {2, 0.5, 1});
  EXPECT_EQ(values[0][7], 16.5 * 2.5);
  scale_into(GetParam(), places[0], places[1], 21, 2, 1);
  EXPECT_EQ(values[0][20], 33);
  EXPECT_EQ(values[0][21], 77);
}

INSTANTIATE_TEST_SUITE_P(Types, WeightedKernels,
                         ::testing::Values(ElementType::fp32, ElementType::fp64, ElementType::bf16, ElementType::fp16),
                         [](const auto& test) { return std::string(name(test.param)); });

/// The bytes that every kernel leaves, one after the other, from the same input.
std::vector<std::byte> everything(ElementType type, std::size_t length) {
  std::mt19937_64 random(length);
  const std::size_t bytes = length * size_of(type);
  std::vector<std::byte> results;
  std::vector<std::vector<std::byte>> inputs(5, std::vector<std::byte>(bytes + 64));
  const auto fill = [&] {
    for (auto& input : inputs)
      for (std::size_t i = 0; i < length; ++i)
        // All magnitudes, those that a half cannot hold among them.
        Number::write(type, input.data(), i, std::ldexp(static_cast<double>(static_cast<int>(random() % 4001) - 2000), static_cast<int>(random() % 24) - 12));
  };
  const auto keep = [&](std::vector<std::byte> from) {
    // Which NaN it is, is for the processor to choose.
    for (std::size_t i = 0; i < length; ++i)
      if (std::isnan(Number::read(type, from.data(), i))) std::fill_n(from.data() + i * size_of(type), size_of(type), std::byte{0xff});
    results.insert(results.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(bytes));
  };
  std::vector<std::byte*> places;
  for (auto& input : inputs) places.push_back(input.data());
  const bool integer = type == ElementType::int32 || type == ElementType::int64;
  const double factors[] = {0.3, 1.7, -2.1, 0.9, 1};
  for (const auto op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::min, ReduceOp::weighted_sum}) {
    const bool weighs = op == ReduceOp::weighted_sum;
    if (weighs && integer) continue;
    const std::int64_t divisor = op == ReduceOp::average ? 3 : 1;
    fill();
    reduce_into(op, type, places[0], places[1], length, weighs ? Scaling{0.3, 1.7, 1} : Scaling{1, 1, divisor});
    keep(inputs[0]);
    for (const int count : {2, 3, 4, 5}) {
      fill();
      reduce_all(op, type, places.data(), weighs ? factors : nullptr, count, length, divisor);
      keep(inputs[0]);
      keep(inputs[1]);
    }
  }
  fill();
  scale_into(type, places[1], places[0], length, integer ? 1 : 0.7, 3);
  keep(inputs[1]);
  if (type == ElementType::fp16 || type == ElementType::bf16) {
    std::vector<float> whole(length);
    for (auto& value : whole) value = std::ldexp(static_cast<float>(random() % 4001) - 2000, static_cast<int>(random() % 40) - 30);
    narrow(type, places[0], whole.data(), length);
    keep(inputs[0]);
    widen(type, whole.data(), places[0], length);
    const auto* const at = reinterpret_cast<const std::byte*>(whole.data());
    results.insert(results.end(), at, at + length * sizeof(float));
  }
  return results;
}

TEST_P(Kernels, LeaveTheSameBitsWithAllVectorInstructionsOfThisProcessor) {
  const auto targets = vector_targets();
  struct Back {
    ~Back() { use_vector_target(""); }
  } back;
  for (const std::size_t length : {1U, 7U, 16U, 31U, 64U, 1000U}) {
    use_vector_target("");
    const auto best = everything(GetParam(), length);
    for (const auto& target : targets) {
      use_vector_target(target);
      EXPECT_EQ(vector_targets(), std::vector{target});
      const auto same = everything(GetParam(), length);
      ASSERT_EQ(same.size(), best.size());
      const auto differs = std::mismatch(same.begin(), same.end(), best.begin()).first - same.begin();
      EXPECT_EQ(static_cast<std::size_t>(differs), best.size()) << target << ", " << length << " elements";
    }
  }
}

TEST(ReduceKernel, RefusesUnknownVectorInstructions) { EXPECT_THROW(use_vector_target("MMX"), Error); }

TEST(ReduceKernel, KnowsItsOperations) {
  EXPECT_EQ(reduced<float>(ReduceOp::sum, 3, -5), -2);
  EXPECT_EQ(reduced<double>(ReduceOp::max, 3, -5), 3);
  EXPECT_EQ(reduced<std::int64_t>(ReduceOp::min, 3, -5), -5);
  EXPECT_EQ(reduced<std::int32_t>(ReduceOp::average, 3, -5), -2);
  EXPECT_EQ(reduced<std::int32_t>(ReduceOp::average, 3, -15, {1, 1, 5}), -2);
  EXPECT_EQ(reduced<float>(ReduceOp::average, 3, -15, {1, 1, 3}), -4);
}

TEST(ReduceKernel, RoundsProductsBeforeItAdds) {
  // Fused, 0.1f * 10 - 1 would not be 0 but what 0.1f lacks.
  EXPECT_EQ(reduced<float>(ReduceOp::weighted_sum, 0.1F, 1.0F, {10, -1, 1}), 0.0F);
}

TEST(ReduceKernel, RoundsBf16ToNearestAndToEven) {
  const auto rounded = [](float value) {
    std::uint16_t zero = 0, bits = 0;
    // As a product, since that is where a bf16 comes from an fp32.
    const auto one = static_cast<std::uint16_t>(0x3f80);
    std::memcpy(&bits, &one, 2);
    reduce_into(ReduceOp::weighted_sum, ElementType::bf16, reinterpret_cast<std::byte*>(&bits), reinterpret_cast<std::byte*>(&zero), 1, {value, 1, 1});
    return bits;
  };
  EXPECT_EQ(rounded(1.00390625F), 0x3f80);   // half way between two: the even one
  EXPECT_EQ(rounded(1.01171875F), 0x3f82);
  EXPECT_EQ(rounded(1.0040F), 0x3f81);
  EXPECT_EQ(rounded(std::numeric_limits<float>::infinity()), 0x7f80);
  EXPECT_GT(rounded(std::numeric_limits<float>::quiet_NaN()) & 0x7fff, 0x7f80);
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
