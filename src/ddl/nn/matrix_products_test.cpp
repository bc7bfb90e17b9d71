#include "ddl/nn/matrix_products.h"

#include <gtest/gtest.h>

#include "ddl/nn/graph_builder.h"

namespace ddl {
namespace {

/// The second of two convolutions, of `channels` maps of 8x8 pixels to 96.
std::optional<std::int64_t> beside(const GraphBuilder::Window& window, std::int64_t samples, std::int64_t channels = 64, std::int64_t groups = 1) {
  GraphBuilder builder("two", {3, 8, 8});
  GraphBuilder::Convolution how;
  how.groups = groups;
  const int first = builder.conv2d("first", GraphBuilder::kInput, channels, {1});
  const int second = builder.conv2d("second", first, 96, window, how);
  return beside_gradient(std::move(builder).finish(), second, 0, samples);
}

TEST(MatrixProducts, PointwiseConvolutionsOfFewSamplesReadTheirMapsAsTheyLie) {
  EXPECT_EQ(beside({1}, 15), 0);
  EXPECT_EQ(beside({1}, 16), std::nullopt);
  EXPECT_EQ(beside({1}, 1, 64, 2), std::nullopt) << "groups";
  EXPECT_EQ(beside({1, 2}, 3), 3 * 4 * 4 * 64) << "every other pixel is copied";
}

TEST(MatrixProducts, OthersOfFewPlacesCopyWhatTheirWindowSees) {
  // 8x8 places of 3 samples are 192, twice 96.
  EXPECT_EQ(beside({3, 1, 1}, 3), 3 * 64 * 9 * 64);
  EXPECT_EQ(beside({3, 1, 1}, 4, 31), std::nullopt);
  EXPECT_EQ(beside({3, 2, 1}, 4), 4 * 16 * 9 * 64);
  EXPECT_EQ(beside({3, 1, 1}, 1, 63), std::nullopt) << "few channels";
}

TEST(MatrixProducts, OthersOf3x3AndStride1HaveSumsForEachPointOfATile) {
  // 9 x 256 places, over 16 x 64 tiles and 1,000.
  EXPECT_EQ(beside({3, 1, 1}, 4), 16 * (64 * 96 + 64 * 160));
  EXPECT_EQ(beside({3, 1, 1}, 40, 32), 16 * (32 * 96 + 215 * 128)) << "three blocks";
  EXPECT_EQ(beside({3, 1, 1}, 40, 31), std::nullopt) << "few channels";
  EXPECT_EQ(beside({3, 1, 1}, 40, 64, 2), std::nullopt) << "groups";
  EXPECT_EQ(beside({3, 2, 1}, 40), std::nullopt) << "stride 2";
  EXPECT_EQ(beside({5, 1, 2}, 40), std::nullopt) << "5x5";
}

TEST(MatrixProducts, AConvolutionGoesAnotherWayOfMoreSamples) {
  GraphBuilder builder("net", {512, 4, 4});
  const int conv = builder.conv2d("conv", GraphBuilder::kInput, 512, {3, 1, 1});
  const int point = builder.conv2d("point", conv, 512, {1});
  const auto graph = std::move(builder).finish();
  // 9 x 16 places a sample, over 16 x 4 tiles and 1,000.
  EXPECT_EQ(way_of(graph, conv, 12), ConvolutionWay::product);
  EXPECT_EQ(way_of(graph, conv, 13), ConvolutionWay::tiles);
  EXPECT_EQ(way_of(graph, point, 15), ConvolutionWay::product);
  EXPECT_EQ(way_of(graph, point, 16), ConvolutionWay::other);
  EXPECT_EQ(way_of(graph, GraphBuilder::kInput, 1), ConvolutionWay::other);
}

TEST(MatrixProducts, PaddingThatIsNotTheSameOnBothSidesIsThereBefore) {
  GraphBuilder builder("two", {3, 8, 8});
  const int first = builder.conv2d("first", GraphBuilder::kInput, 64, {1});
  const int second = builder.conv2d("second", first, 96, {3, 1, 1});
  auto graph = std::move(builder).finish();
  graph.layers[static_cast<std::size_t>(second)].attributes.padding_after = {1, 0};
  EXPECT_EQ(beside_gradient(graph, second, 0, 3), 3 * 8 * 7 * 9 * 64);
}

TEST(MatrixProducts, NarrowNetworksHaveNone) {
  GraphBuilder builder("narrow", {3, 8, 8});
  const int only = builder.conv2d("only", GraphBuilder::kInput, 16, {1});
  EXPECT_EQ(beside_gradient(std::move(builder).finish(), only, 0, 1), std::nullopt);
}

TEST(MatrixProducts, OfLinearLayersAllWeightsAndNoBiases) {
  GraphBuilder builder("dense", {3, 8, 8});
  const int only = builder.linear("only", builder.flatten("flat", GraphBuilder::kInput), 10);
  const auto graph = std::move(builder).finish();
  EXPECT_EQ(beside_gradient(graph, only, 0, 1000), 0);
  EXPECT_EQ(beside_gradient(graph, only, 1, 1000), std::nullopt);
  ASSERT_EQ(owners_of_parameters(graph).size(), 2U);
  EXPECT_EQ(owners_of_parameters(graph)[1].layer, only);
  EXPECT_EQ(owners_of_parameters(graph)[1].number, 1);
}

}  // namespace
}  // namespace ddl
