#include "ddl/strategy/widened_factors.h"

#include <gtest/gtest.h>

#include "ddl/nn/graph_builder.h"
#include "ddl/nn/matrix_products.h"
#include "ddl/strategy/pass_memory.h"
#include "ddl/strategy/stages.h"

namespace ddl {
namespace {

/// The second of two convolutions, of 64 maps of 8x8 pixels to 96.
WidenedFactors of_second(const GraphBuilder::Window& window, std::int64_t samples, ConvolutionWay way, bool with_inputs = true) {
  GraphBuilder builder("two", {3, 8, 8});
  const int first = builder.conv2d("first", GraphBuilder::kInput, 64, {1});
  const int second = builder.conv2d("second", first, 96, window);
  const auto graph = std::move(builder).finish();
  EXPECT_EQ(way_of(graph, second, samples), way);
  return widened_factors(graph, second, samples, with_inputs);
}

TEST(WidenedFactors, OfALinearLayerAreBothFactorsAndWhatTheyMake) {
  GraphBuilder builder("dense", {3, 8, 8});
  const int only = builder.linear("only", builder.flatten("flat", GraphBuilder::kInput), 10);
  const auto graph = std::move(builder).finish();
  const auto found = widened_factors(graph, only, 5, true);
  EXPECT_EQ(found.forward, 4 * (5 * 192 + 192 * 10 + 5 * 10));
  EXPECT_EQ(found.of_inputs, found.forward);
  EXPECT_EQ(found.of_weights, 4 * 5 * (192 + 10)) << "straight into fp32";
  EXPECT_EQ(widened_factors(graph, only, 5, false).of_inputs, 0);
  EXPECT_EQ(widened_factors(graph, GraphBuilder::kInput, 5, true).forward, 0);
}

TEST(WidenedFactors, OfAConvolutionAsItIsComputed) {
  // Of pixels as they lie.
  const auto pixels = of_second({1}, 15, ConvolutionWay::product);
  EXPECT_EQ(pixels.forward, 4 * (15 * 64 * 64 + 64 * 96 + 15 * 64 * 96));
  EXPECT_EQ(pixels.of_inputs, pixels.forward);
  // What windows see is copied, narrow; its gradient stands in the maps' place until it is folded.
  const auto windows = of_second({3, 2, 1}, 4, ConvolutionWay::product);
  const std::int64_t places = 4 * 16, seen = 9 * 64;
  EXPECT_EQ(windows.forward, 4 * (places * seen + seen * 96 + places * 96) + 2 * places * seen);
  EXPECT_EQ(windows.of_inputs, windows.forward - 2 * 4 * 64 * 64);
  EXPECT_EQ(windows.of_weights, 4 * places * (seen + 96) + 2 * places * seen);
  // By ATen's in fp32, from end to end.
  const auto other = of_second({1}, 16, ConvolutionWay::other), leaf = of_second({1}, 16, ConvolutionWay::other, false);
  EXPECT_EQ(other.forward, 4 * 16 * 64 * (64 + 96));
  EXPECT_EQ(other.of_weights, 4 * 16 * 64 * (64 + 96 + 64));
  EXPECT_EQ(leaf.of_weights, other.forward);
  // Tile by tile.
  EXPECT_EQ(of_second({3, 1, 1}, 40, ConvolutionWay::tiles).forward, 0);
}

TEST(WidenedFactors, OfAttentionAreTheLargestProducts) {
  GraphBuilder builder("words", {16, 32});
  const int itself = builder.self_attention("itself", GraphBuilder::kInput, {4});
  const auto graph = std::move(builder).finish();
  EXPECT_EQ(widened_factors(graph, itself, 2, true).forward, 4 * (2 * 16 * 32 + 32 * 96 + 2 * 16 * 96));
}

// A plan holds more where factors are widened, and as much as ever where they are not.
TEST(WidenedFactors, AreInWhatPassesHold) {
  GraphBuilder builder("dense", {3, 8, 8});
  builder.linear("last", builder.relu("relu", builder.linear("first", builder.flatten("flat", GraphBuilder::kInput), 200)), 300);
  const auto graph = std::move(builder).finish();
  const auto most = [&](bool widens) {
    StrategyInput input{graph, 1, 500};
    input.own_kernels = input.mixed = true;
    input.widens = widens;
    return NetworkMemory(input).passes(make_stages(graph, {0}), 500, {}).first_peak;
  };
  EXPECT_GT(most(true), most(false) + 4 * 500 * 200);
}

}  // namespace
}  // namespace ddl
