#include "ddl/nn/graph.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"

namespace ddl {
namespace {

constexpr SampleShape kMnist{1, 28, 28, 10};
constexpr SampleShape kCifar{3, 32, 32, 10};

ModelGraph build(const std::string& name, const SampleShape& shape) { return builtin_models().at(name).make({name, {}}, shape); }

TEST(Networks, HaveTheirPublishedNumberOfParameters) {
  EXPECT_EQ(build("lenet", kMnist).parameters(), 61'706);
  EXPECT_EQ(build("resnet18", kCifar).parameters(), 11'173'962);
  EXPECT_EQ(build("resnet18", kMnist).parameters(), 11'173'962 - 2 * 9 * 64);
}

TEST(Networks, CountTheFlopsOfLeNetByHand) {
  // 2 * multiply-adds + bias of every layer, plus one per ReLU output and four per pooled one.
  const std::int64_t conv1 = (2 * 25 + 1) * 6 * 28 * 28, conv2 = (2 * 6 * 25 + 1) * 16 * 10 * 10;
  const std::int64_t fc = (2 * 400 + 1) * 120 + (2 * 120 + 1) * 84 + (2 * 84 + 1) * 10;
  const std::int64_t relu = 6 * 28 * 28 + 16 * 10 * 10 + 120 + 84, pool = 4 * (6 * 14 * 14 + 16 * 5 * 5);
  EXPECT_EQ(build("lenet", kMnist).flops(), conv1 + conv2 + fc + relu + pool);
}

TEST(Networks, EveryModelFitsEveryDatasetShapeAndNamesItsParametersOnce) {
  for (const auto& entry : builtin_models().entries())
    for (const auto& shape : {kMnist, kCifar}) {
      const auto graph = entry.make({entry.name, {}}, shape);
      EXPECT_EQ(graph.layers.back().shape, (std::vector<std::int64_t>{shape.classes})) << entry.name;
      std::set<std::string> names;
      for (const auto& spec : graph.parameter_specs()) EXPECT_TRUE(names.insert(spec.name).second) << spec.name;
      for (std::size_t i = 0; i < graph.layers.size(); ++i)
        for (const int input : graph.layers[i].inputs) EXPECT_LT(static_cast<std::size_t>(input), i);
    }
}

TEST(Networks, RefuseWhatDoesNotFit) {
  EXPECT_THROW(build("lenet", {1, 8, 8, 10}), Error);
  EXPECT_THROW(build("resnet18", {3, 224, 224, 1000}), Error);
  EXPECT_THROW(builtin_models().at("lenet").make(parse_spec("lenet[depth=3]"), kMnist), Error);
  EXPECT_THROW(builtin_models().at("null").make(parse_spec("null[ms=soon]"), kMnist), Error);
}

TEST(Initialise, FollowsItsDistributionAndSeed) {
  const ParameterSpec spec{"w", {200, 50, 3, 3}, Initialiser::normal_fan_out, 1800};
  std::vector<float> a(static_cast<std::size_t>(spec.elements())), b(a.size()), c(a.size());
  initialise(spec, 1, 0, a.data());
  initialise(spec, 1, 0, b.data());
  initialise(spec, 2, 0, c.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  double squares = 0;
  for (const float x : a) squares += double{x} * x;
  EXPECT_NEAR(squares / static_cast<double>(a.size()) * 900, 1, 0.03);

  const ParameterSpec uniform{"u", {100, 100}, Initialiser::uniform_fan_in, 100};
  std::vector<float> u(10'000);
  initialise(uniform, 1, 1, u.data());
  for (const float x : u) EXPECT_LE(std::abs(x), 0.1F);
}

}  // namespace
}  // namespace ddl
