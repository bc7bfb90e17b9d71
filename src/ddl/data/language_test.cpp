#include "ddl/data/language.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "ddl/core/error.h"
#include "ddl/data/synthetic_language.h"

namespace ddl {
namespace {

std::vector<std::vector<std::int64_t>> streams(const Dataset& data) {
  std::vector<std::vector<std::int64_t>> all;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    all.emplace_back(static_cast<std::size_t>(data.shape().target_length));
    data.read_words(i, nullptr, all.back().data());
  }
  return all;
}

/// Nats per word of a model that has counted which word follows which `order` words (with one added to each count), on
/// other text.
double counted_entropy(const std::vector<std::vector<std::int64_t>>& train,
                       const std::vector<std::vector<std::int64_t>>& test, std::size_t order, double words) {
  std::map<std::vector<std::int64_t>, std::map<std::int64_t, double>> counts;
  std::map<std::vector<std::int64_t>, double> sums;
  const auto context = [&](const std::vector<std::int64_t>& stream, std::size_t i) {
    std::vector<std::int64_t> before;
    for (std::size_t k = 1; k <= order; ++k) before.push_back(i >= k ? stream[i - k] : SampleShape::kBegin);
    return before;
  };
  for (const auto& stream : train)
    for (std::size_t i = 1; i < stream.size(); ++i) ++counts[context(stream, i)][stream[i]], ++sums[context(stream, i)];
  constexpr double kAdded = 0.01;
  double nats = 0, number = 0;
  for (const auto& stream : test)
    for (std::size_t i = 1; i < stream.size(); ++i, ++number)
      nats -= std::log((counts[context(stream, i)][stream[i]] + kAdded) / (sums[context(stream, i)] + kAdded * words));
  return nats / number;
}

TEST(SyntheticLanguage, HasTheEntropyThatIsStated) {
  EXPECT_NEAR(synthetic_language_entropy(), 1.8158479, 1e-6);
  const auto pair = open_language({.synthetic = true,
                                   .seed = 1,
                                   .train_samples = 2000,
                                   .test_samples = 200,
                                   .options = {{"vocabulary", "35"}, {"length", "101"}}});
  const auto train = streams(*pair.train), test = streams(*pair.test);
  // 200,000 words over 4 * 32 contexts: counting pairs of words is near the floor, fewer are far above it, none is
  // below.
  const double two = counted_entropy(train, test, 2, 32), one = counted_entropy(train, test, 1, 32),
               none = counted_entropy(train, test, 0, 32);
  EXPECT_NEAR(two, synthetic_language_entropy(), 0.05);
  EXPECT_GT(one, two + 0.2);
  EXPECT_GT(none, one + 0.2);
  EXPECT_LT(none, std::log(32) + 0.01);
}

TEST(SyntheticLanguage, UsesItsVocabularyAndNothingElse) {
  const auto pair = open_language({.synthetic = true,
                                   .seed = 2,
                                   .train_samples = 500,
                                   .test_samples = 1,
                                   .options = {{"vocabulary", "16"}, {"length", "64"}}});
  std::set<std::int64_t> seen;
  for (const auto& stream : streams(*pair.train)) {
    EXPECT_EQ(stream.front(), SampleShape::kBegin);
    seen.insert(stream.begin() + 1, stream.end());
  }
  EXPECT_EQ(*seen.begin(), 3);
  EXPECT_EQ(*seen.rbegin(), 15);
  EXPECT_EQ(seen.size(), 13U);
  EXPECT_THROW(open_language({.synthetic = true, .options = {{"vocabulary", "15"}}}), Error);
  EXPECT_THROW(open_language({.options = {{"vocabulary", "16"}}}), Error);
}

TEST(Language, IsEveryMessageOnceInItsOrder) {
  if (const auto missing = missing_language({}); !missing.empty()) GTEST_SKIP() << missing;
  const auto pair = open_language({.options = {{"length", "33"}}});
  EXPECT_EQ(pair.train->shape(), language_shape({.options = {{"length", "33"}}}));
  std::int64_t ends = 0;
  for (const auto& stream : streams(*pair.test))
    for (std::size_t i = 1; i < stream.size(); ++i) {
      ASSERT_NE(stream[i], SampleShape::kPadding);
      ASSERT_NE(stream[i], SampleShape::kBegin);
      ends += stream[i] == SampleShape::kEnd ? 1 : 0;
    }
  EXPECT_GT(ends, pair.test->size());
  EXPECT_GT(pair.train->size(), 10 * pair.test->size());
  const auto whole = open_language({.options = {{"length", "65"}}});
  std::vector<std::int64_t> two(65), one(33), next(33);
  whole.train->read_words(7, nullptr, two.data());
  pair.train->read_words(14, nullptr, one.data());
  pair.train->read_words(15, nullptr, next.data());
  one.insert(one.end(), next.begin() + 1, next.end());
  EXPECT_EQ(two, one);
}

}  // namespace
}  // namespace ddl
