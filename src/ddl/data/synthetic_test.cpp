#include "ddl/data/synthetic.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/data/idx_export.h"

namespace ddl {
namespace {

constexpr SampleShape kShape{1, 28, 28, 10};

std::vector<std::uint8_t> raw(const Dataset& data, std::int64_t index) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(data.shape().pixels()));
  bytes.push_back(static_cast<std::uint8_t>(require_raw(data).read_raw(index, bytes.data())));
  return bytes;
}

TEST(Synthetic, FollowsFromItsSeedAndNameOnly) {
  const auto a = make_synthetic("x", kShape, 100, 100, 1), b = make_synthetic("x", kShape, 200, 100, 1);
  EXPECT_EQ(raw(*a.train, 99), raw(*b.train, 99));  // whatever the size, and in any order
  EXPECT_EQ(raw(*a.train, 3), raw(*b.train, 3));
  EXPECT_NE(raw(*a.train, 3), raw(*make_synthetic("x", kShape, 100, 100, 2).train, 3));
  EXPECT_NE(raw(*a.train, 3), raw(*make_synthetic("y", kShape, 100, 100, 1).train, 3));
  EXPECT_EQ(a.test->digest(), b.test->digest());
  EXPECT_NE(a.train->digest(), b.train->digest());
  EXPECT_NE(a.train->digest(), a.test->digest());
}

TEST(Synthetic, NeverRepeatsASample) {
  const auto pair = make_synthetic("x", kShape, 500, 500, 1);
  std::set<std::vector<std::uint8_t>> seen;
  for (std::int64_t i = 0; i < 500; ++i) {
    EXPECT_TRUE(seen.insert(raw(*pair.train, i)).second);
    EXPECT_TRUE(seen.insert(raw(*pair.test, i)).second);
  }
}

TEST(Synthetic, IsNormalisedAndHasEveryClass) {
  const auto pair = make_synthetic("x", {3, 32, 32, 10}, 3000, 10, 1);
  std::vector<float> image(3072);
  std::vector<int> labels(10);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < 3000; ++i) {
    ++labels.at(static_cast<std::size_t>(pair.train->read(i, image.data())));
    for (const float x : image) sum += x, squares += double{x} * x;
  }
  EXPECT_NEAR(sum / (3000 * 3072), 0, 0.02);
  EXPECT_NEAR(squares / (3000 * 3072), 1, 0.02);
  for (const int count : labels) EXPECT_NEAR(count, 300, 83);  // five standard deviations
}

TEST(Synthetic, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(make_synthetic("x", {0, 28, 28, 10}, 1, 1, 1), Error);
  EXPECT_THROW(make_synthetic("x", {1, 28, 28, 257}, 1, 1, 1), Error);
  EXPECT_THROW(make_synthetic("x", kShape, 0, 1, 1), Error);
  EXPECT_THROW(make_synthetic("x", kShape, 1, -1, 1), Error);
  EXPECT_EQ(raw(*make_synthetic("x", {1, 1, 1, 1}, 1, 1, 1).train, 0).size(), 2U);
}

}  // namespace
}  // namespace ddl
