#include "ddl/strategy/partition/layer_costs.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/graph_builder.h"
#include "ddl/strategy/stages.h"

namespace ddl {
namespace {

using Names = std::vector<std::string>;

ModelGraph model(const std::string& text) {
  const auto spec = parse_spec(text);
  return builtin_models().at(spec.name).make(spec, natural_shape(spec.name));
}

int number(const ModelGraph& graph, const std::string& name) {
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer)
    if (graph.layers[layer].name == name) return static_cast<int>(layer);
  ADD_FAILURE() << "no layer " << name;
  return 0;
}

std::vector<std::int64_t> all_wide(const ModelGraph& graph) { return std::vector<std::int64_t>(graph.layers.size(), 4); }

Cut cut_before(const ModelGraph& graph, const std::string& name) { return find_cuts(graph, all_wide(graph)).at(static_cast<std::size_t>(number(graph, name))); }

Names names(const ModelGraph& graph, const Cut& cut) {
  Names all;
  for (const auto& value : cut.values) all.push_back(graph.layers[static_cast<std::size_t>(value.layer)].name);
  return all;
}

TEST(Crossing, AShortCutCrossesBesideWhatTheBlockComputes) {
  const auto graph = model("resnet18");
  const auto at_block = cut_before(graph, "layer1.1.conv1");
  EXPECT_EQ(names(graph, at_block), (Names{"layer1.0.relu"}));
  EXPECT_EQ(at_block.values[0].shape, (std::vector<std::int64_t>{64, 56, 56}));
  EXPECT_EQ(at_block.bytes, 4 * 64 * 56 * 56);
  EXPECT_EQ(at_block.gradient_bytes, at_block.bytes);
  const auto inside = cut_before(graph, "layer1.1.bn1");
  EXPECT_EQ(names(graph, inside), (Names{"layer1.0.relu", "layer1.1.conv1"}));
  EXPECT_EQ(inside.bytes, 2 * at_block.bytes);
  // A projected short cut: before the sum both of its sides are of the new size.
  EXPECT_EQ(names(graph, cut_before(graph, "layer2.0.add")), (Names{"layer2.0.bn2", "layer2.0.downsample.1"}));
}

TEST(Crossing, TellsWhatAnInPlaceLayerWouldOverwrite) {
  const auto graph = model("resnet18");
  const auto sum = cut_before(graph, "layer1.1.add");
  ASSERT_EQ(names(graph, sum), (Names{"layer1.0.relu", "layer1.1.bn2"}));
  EXPECT_EQ(sum.values[0].overwritten_by, -1);
  EXPECT_EQ(sum.values[1].overwritten_by, number(graph, "layer1.1.add"));
  EXPECT_EQ(cut_before(graph, "layer1.1.relu").values[0].overwritten_by, number(graph, "layer1.1.relu"));
}

TEST(Crossing, SeesThroughViewsWhoIsOverwritten) {
  GraphBuilder net("view", {4, 2, 2});
  const int x = net.flatten("flatten", net.batch_norm2d("bn", GraphBuilder::kInput));
  net.linear("fc", net.relu("relu", x), 3);
  const auto graph = std::move(net).finish();
  ASSERT_TRUE(graph.layers[3].in_place);
  const auto cuts = find_cuts(graph, all_wide(graph));
  EXPECT_EQ(names(graph, cuts[2]), (Names{"bn"}));
  EXPECT_EQ(cuts[2].values[0].overwritten_by, 3);
  EXPECT_EQ(names(graph, cuts[3]), (Names{"flatten"}));
  EXPECT_EQ(cuts[3].values[0].overwritten_by, 3);
  EXPECT_EQ(cuts[4].values[0].overwritten_by, -1);
}

TEST(Crossing, EveryBranchOfAConcatenationCrosses) {
  const auto graph = model("inceptionv3");
  EXPECT_EQ(names(graph, cut_before(graph, "Mixed_5b")),
            (Names{"Mixed_5b.branch1x1.relu", "Mixed_5b.branch5x5_2.relu", "Mixed_5b.branch3x3dbl_3.relu", "Mixed_5b.branch_pool.relu"}));
  // After a branch is done its input still waits for the others.
  EXPECT_EQ(names(graph, cut_before(graph, "Mixed_5b.branch5x5_1.conv")), (Names{"maxpool2", "Mixed_5b.branch1x1.relu"}));
  EXPECT_EQ(names(graph, cut_before(graph, "Mixed_5c.branch1x1.conv")), (Names{"Mixed_5b"}));
}

TEST(Crossing, TheAuxiliaryOutputIsReadByTheLoss) {
  const auto graph = model("inceptionv3");
  EXPECT_EQ(names(graph, cut_before(graph, "AuxLogits.conv0.conv")), (Names{"Mixed_6e", "AuxLogits.avgpool"}));
  EXPECT_EQ(names(graph, cut_before(graph, "fc")), (Names{"AuxLogits.fc", "flatten"}));
}

TEST(Crossing, EveryDecoderLayerReadsTheEncodersMemory) {
  const auto graph = model("transformer");
  const std::string memory = "encoder.layers.5.norm2";
  for (int layer = 1; layer < 6; ++layer)
    EXPECT_EQ(names(graph, cut_before(graph, fmt::format("decoder.layers.{}.self_attn", layer))),
              (Names{memory, fmt::format("decoder.layers.{}.norm3", layer - 1)}));
  EXPECT_EQ(names(graph, cut_before(graph, "target_embedding")), (Names{memory}));
  EXPECT_EQ(names(graph, cut_before(graph, "decoder.layers.5.multihead_attn")), (Names{memory, "decoder.layers.5.norm1"}));
  EXPECT_EQ(names(graph, cut_before(graph, "generator")), (Names{"decoder.layers.5.norm3"}));
  // Source and target are loaded by whoever reads them.
  EXPECT_TRUE(cut_before(graph, "target").values.empty());
  EXPECT_TRUE(cut_before(graph, "embedding").values.empty());
}

TEST(Crossing, NoGradientComesBackToWhatIsFrozen) {
  const auto graph = model("captioner");
  const auto inside = cut_before(graph, "encoder.layer1.1.conv2");
  ASSERT_EQ(inside.values.size(), 2U);
  EXPECT_GT(inside.bytes, 0);
  EXPECT_EQ(inside.gradient_bytes, 0);
  const auto decoder = cut_before(graph, "embedding");
  ASSERT_EQ(decoder.values.size(), 1U);
  EXPECT_TRUE(decoder.values[0].gradient);
  const auto trained = model("captioner[encoder=trained]");
  EXPECT_EQ(cut_before(trained, "encoder.layer1.1.conv2").gradient_bytes, inside.bytes);
}

TEST(LayerCosts, SumToThoseOfTheNetwork) {
  for (const auto& entry : builtin_models().entries()) {
    const auto graph = model(entry.name);
    const auto costs = layer_costs(graph, {.samples = 2, .element_bytes = 2, .optimizer_tensors = 2, .flops_per_second = 10});
    EXPECT_EQ(costs.tensors, 4);
    std::int64_t parameters = 0, frozen = 0, kept = 0;
    double forward = 0;
    for (const auto& layer : costs.layers) {
      parameters += layer.parameter_bytes;
      frozen += layer.frozen_bytes;
      kept += layer.activation_bytes;
      forward += layer.forward;
      EXPECT_TRUE(layer.backward == 0 || layer.backward == 2 * layer.forward);
    }
    EXPECT_EQ(parameters, 2 * graph.parameters()) << entry.name;
    EXPECT_EQ(frozen, 2 * graph.frozen_parameters()) << entry.name;
    EXPECT_EQ(kept, 2 * graph.kept_elements()) << entry.name;
    EXPECT_NEAR(forward, static_cast<double>(graph.flops()) / 5, 1e-6 * forward) << entry.name;
  }
}

TEST(LayerCosts, CutsAreAsWideAsWhatIsMadeBeforeThem) {
  const auto graph = model("resnet18");
  CostOptions options;
  options.value_bytes = all_wide(graph);
  options.value_bytes[static_cast<std::size_t>(number(graph, "layer1.1.conv1"))] = 2;
  const auto costs = layer_costs(graph, options);
  const auto& cut = costs.cuts[static_cast<std::size_t>(number(graph, "layer1.1.bn1"))];
  EXPECT_EQ(cut.bytes, 6 * 64 * 56 * 56) << "of the short cut, and of the narrow map";
  EXPECT_EQ(cut.gradient_bytes, cut.bytes);
  options.value_bytes.pop_back();
  EXPECT_THROW(layer_costs(graph, options), Error);
}

TEST(LayerCosts, NothingGoesBackwardThroughWhatIsFrozen) {
  const auto graph = model("captioner");
  const auto costs = layer_costs(graph, {});
  EXPECT_EQ(costs.layers[static_cast<std::size_t>(number(graph, "encoder.conv1"))].backward, 0);
  EXPECT_GT(costs.layers[static_cast<std::size_t>(number(graph, "image"))].backward, 0);
}

TEST(LayerCosts, TakesMeasuredTimes) {
  const auto graph = model("lenet");
  CostOptions options;
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    options.forward.push_back(static_cast<double>(layer));
    options.backward.push_back(0.5);
  }
  const auto costs = layer_costs(graph, options);
  EXPECT_EQ(costs.layers[3].forward, 3);
  EXPECT_EQ(costs.layers[3].backward, 0.5);
  options.backward.pop_back();
  EXPECT_THROW(layer_costs(graph, options), Error);
  options.backward.push_back(-1);
  EXPECT_THROW(layer_costs(graph, options), Error);
  EXPECT_THROW(layer_costs(graph, {.samples = 0}), Error);
}

std::map<int, std::vector<int>> shared_among(const ModelGraph& graph, const std::vector<int>& cuts) { return shared_parameters(make_stages(graph, cuts)); }

TEST(SharedParameters, AreThoseTiedAcrossStages) {
  const auto gpt = model("gpt");
  const int last = static_cast<int>(gpt.layers.size()) - 1;
  const auto shared = shared_among(gpt, {0, 20, 40, last});
  ASSERT_EQ(shared.size(), 1U);
  EXPECT_EQ(gpt.parameter_specs()[static_cast<std::size_t>(shared.begin()->first)].name, "wte.weight");
  EXPECT_EQ(shared.begin()->second, (std::vector<int>{0, 3}));
  EXPECT_TRUE(shared_among(gpt, {0}).empty());

  const auto transformer = model("transformer");
  const int target = number(transformer, "target_embedding"), generator = number(transformer, "generator");
  EXPECT_EQ(shared_among(transformer, {0, 10, target, generator}).begin()->second, (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(shared_among(transformer, {0, 10}).begin()->second, (std::vector<int>{0, 1}));
  EXPECT_TRUE(shared_among(model("resnet18"), {0, 10}).empty());
}

}  // namespace
}  // namespace ddl
