#include "ddl/nn/split/layout.h"
#include "ddl/nn/split/split.h"

#include <array>
#include <atomic>
#include <memory>
#include <set>

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "ddl/core/error.h"
#include "ddl/nn/graph_builder.h"
#include "ddl/nn/narrow_networks_testing.h"
#include "ddl/nn/split/split_testing.h"

namespace ddl {
namespace {

TEST(Split, MegatronEqualsTheWholeNetwork) {
  for (const int parts : {1, 2, 3, 4})
    for (const auto* words : {"split=megatron", "split=megatron,sequence=on"}) {
      expect_equal(kGpt, kText, words, parts);
      expect_equal(kTransformer, kPairs, words, parts);
    }
}

TEST(Split, ChannelsEqualTheWholeNetwork) {
  for (const int parts : {1, 2, 3, 4}) {
    for (const auto* network : {"lenet", "mlp[hidden=50,layers=3]"}) expect_equal(network, kDigits, "split=channels", parts);
    expect_equal(kGpt, kText, "split=channels", parts);
    expect_equal(kTransformer, kPairs, "split=channels", parts);
  }
  for (const auto* words : {"split=height", "split=width", "split=width+hidden"}) expect_equal("lenet", kDigits, words, 3);
}

TEST(Split, NamedDimensionsEqualTheWholeNetwork) {
  for (const int parts : {2, 3}) {
    for (const auto* words : {"split=hidden", "split=heads", "split=vocabulary", "split=sequence", "split=features", "split=heads+hidden,sequence=on",
                              "split=sequence+vocabulary", "split=features+sequence", "split=features+heads+hidden+vocabulary"}) {
      expect_equal(kGpt, kText, words, parts);
      expect_equal(kTransformer, kPairs, words, parts);
    }
    for (const auto* words : {"split=hidden", "split=features", "split=vocabulary", "split=hidden+vocabulary"}) expect_equal("mlp[hidden=50,layers=3]", kDigits, words, parts);
  }
}

// Groups of several channels, pools that count no padding, windows of uneven steps, a mean over maps that lie by rows, and dropout on images.
TEST(Split, WhatNoNetworkHasEqualsTheWholeNetwork) {
  const SampleShape shape{3, 17, 14, 10};
  for (const auto& pooled : {std::array<GraphBuilder::Window, 2>{{{3, 1, 1}, {3, 2, 1}}}, {{{{5, 3}, {2, 1}, {2, 1}}, {{2, 3}, 1, {0, 1}}}}}) {
    GraphBuilder net("windows", {3, 17, 14});
    int x = net.relu("relu", net.batch_norm2d("norm", net.conv2d("grouped", net.conv2d("conv", GraphBuilder::kInput, 24, {5, 1, 2}), 48, {3, 2, 1}, {.groups = 12})));
    x = net.dropout("dropout", net.average_pool2d("average", x, pooled[0], false), 0.3);
    x = net.global_average_pool("mean", net.max_pool2d("largest", net.conv2d("narrow", x, 20, {3, 1, 1}), pooled[1]));
    net.linear("fc", net.flatten("flatten", x), 10);
    const auto graph = std::move(net).finish();
    for (const int parts : {2, 3, 4})
      for (const auto* words : {"split=channels", "split=height", "split=width", "split=width+channels"}) expect_equal(graph, shape, words, parts);
    EXPECT_THROW(split_graph(graph, axes_of("split=channels", 5), 0), Error);
  }
}

// As an executor runs them: forward and backward in pieces, with exchanges between.
TEST(Split, InPiecesEqualsTheWholeNetwork) {
  for (const auto* words : {"split=megatron", "split=megatron,sequence=on", "split=sequence", "split=channels"}) {
    expect_equal(kGpt, kText, words, 2, 3, Run::in_pieces);
    expect_equal(kTransformer, kPairs, words, 3, 3, Run::in_pieces);
  }
  for (const auto* words : {"split=channels", "split=height"}) {
    expect_equal(testing::narrow_resnet({}, kColours), kColours, words, 3, 2, Run::in_pieces);
    expect_equal(testing::narrow_mobilenet({}, kColours), kColours, words, 2, 2, Run::in_pieces);
  }
  expect_equal("resnet18", kColours, "split=height", 2, 2, Run::in_pieces);
  expect_equal(kGpt, kText, "split=megatron/sequence", {2, 3}, 3, Run::in_pieces);
  expect_equal(kTransformer, kPairs, "split=sequence/heads+hidden", {2, 3}, 3, Run::in_pieces);
  expect_equal(testing::wide_resnet({}, kColours), kColours, "split=height/channels", {2, 3}, 2, Run::in_pieces);
  expect_equal(testing::wide_resnet({}, kColours), kColours, "split=channels/width", {2, 2}, 2, Run::in_pieces);
}

// Two axes, and three: of each tensor a dimension along every axis that has one of it; sizes that no axis divides.
TEST(Split, MeshesEqualTheWholeNetwork) {
  for (const auto* words : {"split=height/channels", "split=channels/height", "split=height/width", "split=hidden/height+features"})
    for (const auto& over : {Parts{2, 2}, Parts{2, 3}, Parts{3, 2}}) expect_equal("lenet", kDigits, words, over);
  expect_equal("lenet", kDigits, "split=height/width/channels", {2, 2, 2}, 2);
  expect_equal("lenet", kDigits, "split=height/width/channels", {2, 1, 3}, 2);
  for (const auto* words : {"split=megatron/sequence", "split=sequence/heads+hidden", "split=heads+hidden/features", "split=features/heads+sequence", "split=vocabulary+sequence/features+hidden"})
    for (const auto& over : {Parts{2, 2}, Parts{3, 2}, Parts{2, 3}}) {
      expect_equal(kGpt, kText, words, over, 2);
      expect_equal(kTransformer, kPairs, words, over, 2);
    }
  expect_equal(kGpt, kText, "split=heads/sequence/hidden+vocabulary", {2, 2, 2}, 2);
  for (const auto* words : {"split=hidden/features", "split=vocabulary/hidden+features"}) expect_equal("mlp[hidden=50,layers=3]", kDigits, words, {2, 3});
}

// A dimension on two axes: each part has a part of a part.
TEST(Split, PartsOfPartsEqualTheWholeNetwork) {
  for (const auto* words : {"split=channels/channels", "split=height+features/channels+features", "split=hidden+vocabulary/channels+hidden", "split=width/width"}) expect_equal("lenet", kDigits, words, {2, 2});
  for (const auto* words : {"split=megatron/megatron", "split=heads/heads+hidden", "split=sequence/sequence", "split=features/features+sequence", "split=vocabulary/vocabulary+hidden", "split=heads+sequence/hidden+sequence"})
    expect_equal(kGpt, kText, words, {2, 2}, 2);
  expect_equal(kTransformer, kPairs, "split=megatron/megatron", {2, 2}, 2);
  expect_equal(kGpt, kText, "split=megatron/megatron", {2, 3}, 2, Run::in_pieces);
  expect_equal(testing::wide_resnet({}, kColours), kColours, "split=height+channels/channels", {2, 2}, 2, Run::in_pieces);
}

// Batch norm, groups and pools whose padding differs from part to part on both sides.
TEST(Split, MeshesOfMapsEqualTheWholeNetwork) {
  const SampleShape shape{3, 17, 14, 10};
  GraphBuilder net("windows", {3, 17, 14});
  int x = net.relu("relu", net.batch_norm2d("norm", net.conv2d("grouped", net.conv2d("conv", GraphBuilder::kInput, 24, {5, 1, 2}), 48, {3, 2, 1}, {.groups = 12})));
  x = net.dropout("dropout", net.average_pool2d("average", x, {3, 1, 1}, false), 0.3);
  x = net.global_average_pool("mean", net.max_pool2d("largest", net.conv2d("narrow", x, 20, {3, 1, 1}), {3, 2, 1}));
  net.linear("fc", net.flatten("flatten", x), 10);
  const auto graph = std::move(net).finish();
  for (const auto* words : {"split=height/channels", "split=channels/height", "split=height/width", "split=width/height", "split=width/channels"})
    for (const auto& over : {Parts{2, 2}, Parts{2, 3}, Parts{3, 2}}) {
      expect_equal(graph, shape, words, over);
      expect_equal(graph, shape, words, over, 3, Run::in_pieces);
    }
  expect_equal(graph, shape, "split=width/channels/height", {2, 2, 3});
}

ModelGraph graph_of(const std::string& network, const SampleShape& shape) { return make_model(parse_spec(network), shape); }

struct Case {
  std::string network;
  SampleShape shape;
  std::string words;
  Parts over = 3;
};

std::vector<Case> cases() {
  return {{kGpt, kText, "split=megatron"},           {kGpt, kText, "split=megatron,sequence=on"}, {kTransformer, kPairs, "split=sequence"},
          {kGpt, kText, "split=channels"},           {"resnet18", kColours, "split=channels"},    {"resnet18", kColours, "split=height"},
          {"mobilenetv2", kColours, "split=height"}, {"lenet", kDigits, "split=channels"},        {"inceptionv3", {3, 75, 75, 10}, "split=width"},
          {"resnet18", kColours, "split=height/channels", {2, 3}}, {"inceptionv3", {3, 75, 75, 10}, "split=channels/width", {2, 3}},
          {"lenet", kDigits, "split=height/channels", {3, 4}},     {"mobilenetv2", kColours, "split=height/width", {3, 2}},
          {kGpt, kText, "split=megatron/sequence", {3, 2}},        {kTransformer, kPairs, "split=sequence/heads+features", {4, 2}},
          {"lenet", kDigits, "split=height/width/channels", {2, 3, 2}}, {kGpt, kText, "split=megatron/megatron", {2, 3}},
          {"lenet", kDigits, "split=height+features/channels+features", {2, 2}}};
}

// What split.h promises to whoever runs the parts.
TEST(Split, PartsMeetLayerByLayer) {
  for (const auto& [network, shape, words, over] : cases()) {
    SCOPED_TRACE(network + " " + words);
    const auto whole = graph_of(network, shape);
    const auto axes = axes_of(words, over);
    std::vector<ModelGraph> parts;
    for (int part = 0; part < parts_of(axes); ++part) parts.push_back(split_graph(whole, axes, part));
    const auto& first = parts[0].layers;
    for (std::size_t number = 0; number < parts.size(); ++number) {
      const auto& graph = parts[number];
      ASSERT_EQ(graph.layers.size(), first.size());
      EXPECT_EQ(graph.auxiliary, parts[0].auxiliary);
      const auto cuts = segments(graph);
      std::set<std::string> names;
      int segment = 0, covered = 0;
      for (std::size_t i = 0; i < graph.layers.size(); ++i) {
        const auto& layer = graph.layers[i];
        EXPECT_TRUE(names.insert(layer.name).second) << layer.name;
        EXPECT_EQ(layer.name, first[i].name);
        EXPECT_EQ(layer.kind, first[i].kind);
        EXPECT_EQ(layer.inputs, first[i].inputs) << layer.name;
        EXPECT_EQ(layer.auxiliary, first[i].auxiliary) << layer.name;
        for (const int input : layer.inputs) EXPECT_LT(input, static_cast<int>(i)) << layer.name;
        if (layer.piece) {
          auto expected = layer.piece->whole;
          for (const auto& [dimension, ranges] : layer.piece->cuts) expected[static_cast<std::size_t>(dimension)] = size_of(ranges);
          EXPECT_EQ(layer.shape, expected) << layer.name;
        }
        while (segment + 1 < static_cast<int>(cuts.size()) && cuts[static_cast<std::size_t>(segment + 1)].first <= static_cast<int>(i)) ++segment;
        const auto& cut = cuts[static_cast<std::size_t>(segment)];
        const bool inside = cut.first <= static_cast<int>(i) && static_cast<int>(i) < cut.last;
        EXPECT_EQ(inside, !communicates(layer)) << layer.name;
        covered += inside;
        if (layer.in_place) {
          EXPECT_GE(layer.inputs[0], cut.first) << layer.name;
        }
        if (layer.kind != LayerKind::exchange) continue;
        EXPECT_EQ(layer.inputs.size(), 1U);
        EXPECT_TRUE(layer.parameters.empty());
        EXPECT_EQ(layer.exchange->forward, first[i].exchange->forward);
        EXPECT_EQ(layer.exchange->backward, first[i].exchange->backward);
        EXPECT_EQ(layer.exchange->axis, first[i].exchange->axis);
        EXPECT_EQ(layer.exchange->part, place_on(axes, layer.exchange->axis, static_cast<int>(number)));
        // The place before this one on the exchange's axis, who agrees on all others.
        if (layer.exchange->part == 0) continue;
        int step = 1;
        for (std::size_t later = axes.size(); --later > static_cast<std::size_t>(layer.exchange->axis);) step *= axes[later].parts;
        const auto& met = *parts[number - static_cast<std::size_t>(step)].layers[i].exchange;
        EXPECT_EQ(layer.exchange->whole, met.whole) << layer.name;
        EXPECT_EQ(layer.exchange->before, met.before) << layer.name;
        EXPECT_EQ(layer.exchange->after, met.after) << layer.name;
      }
      EXPECT_EQ(covered + std::count_if(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return communicates(layer); }), static_cast<int>(graph.layers.size()));
      EXPECT_FALSE(graph.layers.back().piece) << "logits are whole";
      EXPECT_EQ(graph.layers.back().shape, whole.layers.back().shape);
      const auto specs = graph.parameter_specs(), of_whole = whole.parameter_specs();
      ASSERT_EQ(specs.size(), of_whole.size());
      for (std::size_t i = 0; i < specs.size(); ++i) {
        EXPECT_EQ(specs[i].name, of_whole[i].name);
        EXPECT_EQ(specs[i].piece ? specs[i].piece->whole : specs[i].shape, of_whole[i].shape) << specs[i].name;
        EXPECT_EQ(specs[i].piece.has_value(), !specs[i].cut_along.empty()) << specs[i].name;
        for (const int axis : specs[i].partial_along) EXPECT_EQ(std::count(specs[i].cut_along.begin(), specs[i].cut_along.end(), axis), 0) << specs[i].name;
      }
    }
  }
}

/// Bytes that tensors on the processor take, more than before it was made.
class Held : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override { held_ += bytes; }
  bool memoryProfilingEnabled() const override { return true; }
  std::int64_t bytes() const { return held_; }

 private:
  std::atomic<std::int64_t> held_ = 0;
};

// What lives between forward and backward is what the parts' graphs say.
TEST(Split, HoldsForBackwardWhatItsGraphsSay) {
  constexpr std::int64_t kSamples = 8;
  const std::string gpt = "gpt[hidden=64,layers=2,heads=4]";
  for (const auto& [network, shape, words, over] :
       {Case{gpt, kText, "split=megatron", 2}, {gpt, kText, "split=megatron,sequence=on", 2}, {"resnet18", kColours, "split=channels", 2}, {"resnet18", kColours, "split=height", 2},
        {gpt, kText, "split=megatron/sequence", {2, 2}}, {"resnet18", kColours, "split=height/channels", {2, 2}}, {"resnet18", kColours, "split=height/width", {2, 2}}}) {
    Lockstep split(graph_of(network, shape), axes_of(words, over), {});
    const auto given = made_up_samples(kSamples, shape, at::kFloat);
    const auto held = std::make_shared<Held>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, held);
    const auto outputs = split.forward(given.input, true);
    std::int64_t expected = 0;
    for (int p = 0; p < split.parts(); ++p) {
      expected += outputs[static_cast<std::size_t>(p)].logits.nbytes();
      for (const auto& layer : split.part(p).graph().layers) {
        if (layer.kind != LayerKind::input) expected += 4 * (is_per_batch(layer) ? 1 : kSamples) * layer.kept_elements;
        for (const auto& statistic : layer.statistics) expected += 4 * statistic.elements();
      }
    }
    EXPECT_NEAR(static_cast<double>(held->bytes()), static_cast<double>(expected), 0.04 * static_cast<double>(expected)) << network << " " << words;
  }
}

/// Of all parts' sums: the whole network's work is done once, but for what every part does.
TEST(Split, PartsDivideParametersAndWork) {
  const auto shares = [](const std::string& network, const SampleShape& shape, const std::string& words, int parts) {
    const auto whole = graph_of(network, shape);
    const auto part = split_graph(whole, axes_of(words, parts), 0);
    return std::array{static_cast<double>(part.parameters()) / static_cast<double>(whole.parameters()),
                      static_cast<double>(part.multiply_adds()) / static_cast<double>(whole.multiply_adds())};
  };
  const SampleShape images{3, 224, 224, 1000}, text{.classes = 50257, .objective = Objective::language, .target_length = 1025};
  for (const int parts : {2, 4}) {
    const double share = 1.0 / parts;
    for (const auto* network : {"resnet50", "vgg16", "mobilenetv2"}) {
      const auto [parameters, work] = shares(network, images, "split=channels", parts);
      EXPECT_NEAR(parameters, share, 0.002) << network;
      EXPECT_NEAR(work, share, 0.002) << network;
    }
    // Positions, layer norms and the biases of rows are whole.
    for (const auto* words : {"split=megatron", "split=megatron,sequence=on"}) {
      const auto [parameters, work] = shares("gpt", text, words, parts);
      EXPECT_NEAR(parameters, share, 0.008) << words;
      EXPECT_NEAR(work, share, 0.0001) << words;
    }
    for (const auto* words : {"split=height", "split=width"}) {
      const auto [parameters, work] = shares("resnet50", images, words, parts);
      EXPECT_EQ(parameters, 1);
      EXPECT_NEAR(work, share, 0.02) << words;  // 7 rows in 2 parts
    }
  }
}

// Megatron's communication: two all-reduces a layer forward and two backward, of [sequence, features] (Shoeybi et al. 2019, section 3; Korthikanti et
// al. 2022, section 4.2.2: the same bytes as reduce-scatters and all-gathers), and what embedding and logits add.
TEST(Split, TrafficIsThatOfThePapers) {
  const auto whole = graph_of(kGpt, kText);
  constexpr std::int64_t kPlaces = 12, kFeatures = 48, kWords = 50, kLayers = 2;
  const auto plain = traffic_of(split_graph(whole, axes_of("split=megatron", 2), 0));
  constexpr std::int64_t kAllReduce = kPlaces * kFeatures;  // 2 (parts - 1) / parts of it
  EXPECT_EQ(plain.forward_elements, (2 * kLayers + 1) * kAllReduce + kPlaces * kWords / 2);
  EXPECT_EQ(plain.backward_elements, (2 * kLayers + 1) * kAllReduce);
  EXPECT_EQ(plain.gradient_elements, 0);
  const auto sequence = traffic_of(split_graph(whole, axes_of("split=megatron,sequence=on", 2), 0));
  EXPECT_EQ(sequence.forward_elements, plain.forward_elements);
  EXPECT_EQ(sequence.backward_elements, plain.backward_elements);
  // Five layer norms, the positions and four biases after rows.
  EXPECT_EQ(sequence.gradient_elements, 5 * 2 * kFeatures + kPlaces * kFeatures + 4 * kFeatures);
}

std::string error_of(const std::string& network, const SampleShape& shape, const std::string& words, int part, const Parts& parts) {
  try {
    split_graph(graph_of(network, shape), axes_of(words, parts), part);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(Split, SaysWhatWouldDo) {
  EXPECT_EQ(error_of(kGpt, kText, "split=megatron", 0, 5),
            "[split] layer 'h.0.attn' of 'gpt' divides its heads among parts; got 12 heads and 5 parts, expected 1, 2, 3, 4, 6, 12 parts");
  EXPECT_EQ(error_of("resnet18", kColours, "split=heads", 0, 2),
            "[split] nothing of 'resnet18' is split; got dimensions heads and 2 parts, expected some of channels+height+width+features+vocabulary that are as large");
  EXPECT_EQ(error_of("lenet", kDigits, "split=hight", 0, 2),
            "[split] no such dimension; got 'hight', expected some of: channels height width features heads hidden vocabulary sequence (did you mean 'height'?)");
  EXPECT_EQ(error_of("lenet", kDigits, "split=batch", 0, 2), "[split] the batch is not split inside a network; strategy data does that");
  EXPECT_EQ(error_of("lenet", kDigits, "sequence=maybe", 0, 2), "[tensor] sequence; got 'maybe', expected on or off");
  EXPECT_EQ(error_of("lenet", kDigits, "split=channels", 2, 2), "[split] there is no such part; got part 2 of 2");
}

}  // namespace
}  // namespace ddl
