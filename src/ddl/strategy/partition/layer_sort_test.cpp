#include "ddl/strategy/partition/layer_sort.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "ddl/nn/builtin.h"
#include "ddl/strategy/partition/crossing.h"

namespace ddl {
namespace {

ModelGraph make_model(const std::string& text, const SampleShape& shape) {
  const auto spec = parse_spec(text);
  return builtin_models().at(spec.name).make(spec, shape);
}

std::string sort_of(const ModelGraph& graph, const std::string& name) {
  const auto found = std::find_if(graph.layers.begin(), graph.layers.end(), [&](const Layer& layer) { return layer.name == name; });
  return layer_sort(graph, static_cast<std::size_t>(found - graph.layers.begin()), learning_layers(graph));
}

// Profiles keep these words: a layer that says something else from one version to the next is no longer known.
TEST(LayerSort, SaysWhatALayerComputes) {
  const auto lenet = make_model("lenet", {1, 28, 28, 10});
  EXPECT_EQ(sort_of(lenet, "conv1"), "conv2d[kernel=5x5,padding=2x2] (1x28x28) -> 6x28x28 own 6x1x5x5 own 6");
  EXPECT_EQ(sort_of(lenet, "conv2"), "conv2d[kernel=5x5] (6x14x14 learning) -> 16x10x10 own 16x6x5x5 own 16");
  EXPECT_EQ(sort_of(lenet, "fc3"), "linear (84 learning) -> 10 own 10x84 own 10");
  EXPECT_EQ(loss_sort(lenet), "loss (10)");
}

TEST(LayerSort, IsTheSameForLayersThatAreAlikeAndForNoOthers) {
  const auto small = make_model("resnet18", {3, 32, 32, 10}), large = make_model("resnet34", {3, 32, 32, 10}), wide = make_model("resnet18", {3, 64, 64, 10});
  const auto sorts = [](const ModelGraph& graph) {
    std::set<std::string> all;
    const auto learns = learning_layers(graph);
    for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) all.insert(layer_sort(graph, layer, learns));
    return all;
  };
  const auto of_small = sorts(small), of_large = sorts(large), of_wide = sorts(wide);
  EXPECT_LT(of_small.size(), small.layers.size() / 2 + 10);
  EXPECT_EQ(of_small, of_large) << "the same blocks, more often";
  EXPECT_NE(of_small, of_wide);
  EXPECT_NE(sort_of(small, "conv1"), sort_of(wide, "conv1")) << "of larger images";
  EXPECT_EQ(sort_of(small, "fc"), sort_of(wide, "fc")) << "after the mean over pixels all is the same";
}

TEST(LayerSort, FamiliesWorkAlike) {
  const auto graph = make_model("mobilenetv2", {3, 32, 32, 10});
  std::set<std::string> families;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) families.insert(layer_family(graph, layer));
  for (const char* family : {"conv2d 3x3 channels last", "conv2d 1x1 channels last", "conv2d depthwise channels last", "batch_norm2d channels last", "relu6 channels last", "linear"}) EXPECT_TRUE(families.contains(family)) << family;
}

TEST(LayerSort, CountsHowMuchALayerWorks) {
  const auto lenet = make_model("lenet", {1, 28, 28, 10});
  const auto learns = learning_layers(lenet);
  const auto conv = layer_work(lenet, 1, learns);
  EXPECT_EQ(lenet.layers[1].name, "conv1");
  EXPECT_EQ(conv.elements, 28 * 28 + 6 * 28 * 28);
  EXPECT_EQ(conv.parameters, 6 * 25 + 6);
  EXPECT_TRUE(conv.trains);
  EXPECT_FALSE(conv.learning_input);
}

}  // namespace
}  // namespace ddl
