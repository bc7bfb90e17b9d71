#include "ddl/data/synthetic.h"

#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/core/hash.h"
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

TEST(Synthetic, KeepsLargeImagesLearnableAndSmallInMemory) {
  const auto pair = make_synthetic("x", {1, 160, 100, 3}, 600, 10, 1);
  std::vector<float> image(16'000);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < 600; ++i) {
    pair.train->read(i, image.data());
    for (const float x : image) sum += x, squares += double{x} * x;
  }
  EXPECT_NEAR(sum / (600 * 16'000), 0, 0.02);
  EXPECT_NEAR(squares / (600 * 16'000), 1, 0.02);
  // Neighbours are alike, as in a smooth picture under noise: a quarter of the variance or more is the picture's.
  double along = 0, down = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    pair.train->read(i, image.data());
    for (std::size_t y = 0; y + 1 < 160; ++y)
      for (std::size_t x = 0; x + 1 < 100; ++x) {
        along += double{image[y * 100 + x]} * image[y * 100 + x + 1];
        down += double{image[y * 100 + x]} * image[(y + 1) * 100 + x];
      }
  }
  EXPECT_GT(along / (100 * 159 * 99), 0.25);
  EXPECT_GT(down / (100 * 159 * 99), 0.25);
  // 1.28 million samples of a thousand classes are there at once.
  const auto many = make_synthetic("imagenet", {3, 224, 224, 1000}, 1'281'167, 50'000, 1);
  EXPECT_EQ(many.train->size(), 1'281'167);
  EXPECT_EQ(raw(*many.train, 1'281'166), raw(*many.train, 1'281'166));
}

TEST(Synthetic, HasTheSameBitsAsEver) {
  // What version 1 has always been: a run's identity is its digest, and the same digest must mean the same bytes.
  std::string bytes;
  const auto pair = make_synthetic("cifar10", {3, 32, 32, 10}, 50, 10, 1);
  for (std::int64_t i = 0; i < 50; ++i)
    for (const auto byte : raw(*pair.train, i)) bytes += static_cast<char>(byte);
  EXPECT_EQ(digest(bytes), "a2a7b2d3954eddf4b99004dcd4af395d");
}

TEST(Synthetic, OtherSidesHaveTheSameBitsAsEver) {
  // Rows that no number of pixels at once divides, read in between few values or not, and longer than what is put at once.
  const std::pair<SampleShape, const char*> known[] = {{{1, 5, 27, 10}, "f38e053596c63cbd6f7d74b847749538"}, {{3, 30, 61, 10}, "21ad602e349d809e3a30071ace45143e"}, {{3, 100, 90, 10}, "ac76c2eeff16f3141c58ef6219b11534"}, {{3, 224, 224, 1000}, "ee865224e96a94d405d42b76bc010cff"}, {{1, 3, 2051, 10}, "78dff16e08bb077b831b026d9a6a856a"}};
  for (const auto& [shape, expected] : known) {
    std::string bytes;
    const auto pair = make_synthetic("sides", shape, 8, 2, 1);
    for (std::int64_t i = 0; i < 8; ++i)
      for (const auto byte : raw(*pair.train, i)) bytes += static_cast<char>(byte);
    EXPECT_EQ(digest(bytes), expected) << shape.height << "x" << shape.width;
  }
}

TEST(Synthetic, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(make_synthetic("x", {0, 28, 28, 10}, 1, 1, 1), Error);
  EXPECT_THROW(make_synthetic("x", {1, 28, 28, 65'537}, 1, 1, 1), Error);
  EXPECT_THROW(make_synthetic("x", kShape, 0, 1, 1), Error);
  EXPECT_THROW(make_synthetic("x", kShape, 1, -1, 1), Error);
  EXPECT_EQ(raw(*make_synthetic("x", {1, 1, 1, 1}, 1, 1, 1).train, 0).size(), 2U);
}

}  // namespace
}  // namespace ddl
