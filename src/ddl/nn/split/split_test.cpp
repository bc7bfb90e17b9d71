#include "ddl/nn/split/split.h"

#include <algorithm>
#include <set>

#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/nn/model.h"
#include "ddl/nn/network_testing.h"
#include "ddl/nn/split/lockstep_testing.h"

namespace ddl {
namespace {

constexpr double kExact = 1e-12;

SplitOptions options_of(const std::string& words) { return split_options(parse_spec("tensor[" + words + "]")); }

double largest(const at::Tensor& x) { return x.numel() == 0 ? 0 : x.abs().max().item<double>(); }

/// Relative to the largest element of what is expected.
void expect_near(const at::Tensor& got, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.sizes(), expected.sizes()) << what;
  EXPECT_LE(largest(got - expected), kExact * std::max(1.0, largest(expected))) << what;
}

/// What the parts have of one tensor of the whole network, put together.
at::Tensor together(const std::vector<const ParameterSpec*>& specs, const PartValues& values, bool gradients, const std::string& what) {
  if (specs[0]->piece) {
    PartRanges ranges;
    PartValues ones;
    for (std::size_t p = 0; p < specs.size(); ++p) {
      ranges.push_back(specs[p]->piece->ranges);
      ones.push_back(at::ones_like(values[p]));
    }
    const auto& [whole, dimension, unused] = *specs[0]->piece;
    const auto size = whole[static_cast<std::size_t>(dimension)];
    EXPECT_TRUE(put_together(ones, dimension, ranges, size).eq(1).all().item<bool>()) << what << " is cut into pieces";
    return put_together(values, dimension, ranges, size);
  }
  auto all = values[0];
  for (std::size_t p = 1; p < values.size(); ++p) {
    if (gradients && specs[0]->partial_gradient)
      all = all + values[p];
    else
      expect_near(values[p], values[0], what + " is the same on all parts");
  }
  return all;
}

/// Trains one step of both, in fp64, and compares all there is to compare.
void expect_equal(const std::string& network, const SampleShape& shape, const std::string& words, int parts, std::int64_t samples = 3) {
  SCOPED_TRACE(fmt::format("{} {} in {} parts", network, words, parts));
  const NetworkOptions how{at::kDouble, at::kCPU, Kernels::fast, 5};
  const auto graph = make_model(parse_spec(network), shape);
  Network whole(graph, how);
  Lockstep split(graph, options_of(words), parts, how);
  auto given = made_up_samples(samples, shape, at::kDouble);
  given.input.step = 3;

  std::vector<std::vector<ParameterSpec>> specs, statistics(static_cast<std::size_t>(parts));
  for (int p = 0; p < parts; ++p) {
    specs.push_back(split.part(p).graph().parameter_specs());
    for (const auto& layer : split.part(p).graph().layers)
      if (!layer.frozen) statistics[static_cast<std::size_t>(p)].insert(statistics[static_cast<std::size_t>(p)].end(), layer.statistics.begin(), layer.statistics.end());
    ASSERT_EQ(split.part(p).parameters().size(), whole.parameters().size());
    ASSERT_EQ(split.part(p).buffers().size(), whole.buffers().size());
    ASSERT_EQ(split.part(p).parameter_names(), whole.parameter_names());
  }
  const auto gathered = [&](std::size_t i, bool gradients) {
    std::vector<const ParameterSpec*> of_parts;
    PartValues values;
    for (int p = 0; p < parts; ++p) {
      of_parts.push_back(&specs[static_cast<std::size_t>(p)][i]);
      const auto& parameter = split.part(p).parameters()[i];
      if (gradients) {
        EXPECT_TRUE(parameter.grad().defined()) << whole.parameter_names()[i];
      }
      values.push_back(gradients ? parameter.grad() : parameter.detach());
    }
    return together(of_parts, values, gradients, whole.parameter_names()[i]);
  };
  for (std::size_t i = 0; i < whole.parameters().size(); ++i)
    EXPECT_TRUE(at::equal(gathered(i, false), whole.parameters()[i].detach())) << whole.parameter_names()[i] << " starts as it would";

  const auto expected = whole.forward(given.input, true);
  const auto got = split.forward(given.input, true);
  const auto loss = loss_of(expected, given.labels, shape);
  at::Tensor losses;
  for (const auto& output : got) {
    expect_near(output.logits, expected.logits, "logits");
    const auto of_part = loss_of(output, given.labels, shape);
    expect_near(of_part, loss, "loss");
    losses = losses.defined() ? losses + of_part : of_part;
  }
  loss.backward();
  losses.backward();
  for (std::size_t i = 0; i < whole.parameters().size(); ++i)
    expect_near(gathered(i, true), whole.parameters()[i].grad(), "gradient of " + whole.parameter_names()[i]);
  for (std::size_t i = 0; i < whole.buffers().size(); ++i) {
    std::vector<const ParameterSpec*> of_parts;
    PartValues values;
    for (int p = 0; p < parts; ++p) {
      of_parts.push_back(&statistics[static_cast<std::size_t>(p)][i]);
      values.push_back(split.part(p).buffers()[i]);
    }
    expect_near(together(of_parts, values, false, of_parts[0]->name), whole.buffers()[i], of_parts[0]->name);
  }
  const c10::NoGradGuard guard;
  const auto evaluated = whole.forward(given.input, false).logits;
  for (const auto& output : split.forward(given.input, false)) expect_near(output.logits, evaluated, "logits in evaluation");
}

const SampleShape kDigits{1, 28, 28, 10}, kColours{3, 32, 32, 10};
const SampleShape kText{.classes = 50, .objective = Objective::language, .target_length = 13};
const SampleShape kPairs{.classes = 50, .objective = Objective::translation, .source_length = 9, .target_length = 8};
const std::string kGpt = "gpt[hidden=48,layers=2,heads=12,dropout=0.2]", kTransformer = "transformer[layers=1,hidden=48,heads=12,dropout=0.2]";

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
    for (const auto* network : {"smallcnn", "vgg11", "mobilenetv2", "resnet18"}) expect_equal(network, kColours, "split=channels", parts);
    expect_equal(kGpt, kText, "split=channels", parts);
    expect_equal(kTransformer, kPairs, "split=channels", parts);
  }
}

TEST(Split, HeightAndWidthEqualTheWholeNetwork) {
  for (const int parts : {2, 3, 4})
    for (const auto* words : {"split=height", "split=width"}) {
      expect_equal("lenet", kDigits, words, parts);
      for (const auto* network : {"smallcnn", "vgg11", "mobilenetv2", "resnet18"}) expect_equal(network, kColours, words, parts);
    }
  // Oblong images, whose stem has a 7x7 window, and with as many parts as there are rows at the end.
  expect_equal("resnet18", {3, 96, 64, 10}, "split=height", 3, 2);
  expect_equal("smallcnn", {3, 10, 7, 10}, "split=width", 7, 2);
}

TEST(Split, NamedDimensionsEqualTheWholeNetwork) {
  for (const int parts : {2, 3}) {
    for (const auto* words : {"split=hidden", "split=heads", "split=vocabulary", "split=sequence", "split=features", "split=heads+hidden,sequence=on",
                              "split=sequence+vocabulary", "split=features+sequence", "split=features+heads+hidden+vocabulary"}) {
      expect_equal(kGpt, kText, words, parts);
      expect_equal(kTransformer, kPairs, words, parts);
    }
    for (const auto* words : {"split=hidden", "split=features", "split=vocabulary", "split=hidden+vocabulary"}) expect_equal("mlp[hidden=50,layers=3]", kDigits, words, parts);
    for (const auto* words : {"split=height+channels", "split=width+hidden", "split=hidden+vocabulary"}) expect_equal("vgg11", kColours, words, parts);
  }
}

// Branches joined along channels, an auxiliary head, average pools with padding; a frozen encoder, and an LSTM that runs whole.
TEST(Split, BranchesAuxiliaryHeadsAndRecurrenceEqualTheWholeNetwork) {
  // With samples and pixels enough at the end: batch norm of two values that are nearly one is not a function that rounding leaves alone.
  const SampleShape images{3, 107, 107, 10}, captions{3, 32, 32, 50, Objective::captioning, 0, 9};
  expect_equal("inceptionv3", images, "split=channels", 2, 6);
  expect_equal("inceptionv3", images, "split=height", 2, 6);
  for (const auto* words : {"split=channels", "split=height+vocabulary"})
    for (const auto* encoder : {"frozen", "trained"}) expect_equal(fmt::format("captioner[encoder={},depth=18,hidden=36]", encoder), captions, words, 3, 4);
}

ModelGraph graph_of(const std::string& network, const SampleShape& shape) { return make_model(parse_spec(network), shape); }

struct Case {
  std::string network;
  SampleShape shape;
  std::string words;
};

std::vector<Case> cases() {
  return {{kGpt, kText, "split=megatron"},           {kGpt, kText, "split=megatron,sequence=on"}, {kTransformer, kPairs, "split=sequence"},
          {kGpt, kText, "split=channels"},           {"resnet18", kColours, "split=channels"},    {"resnet18", kColours, "split=height"},
          {"mobilenetv2", kColours, "split=height"}, {"lenet", kDigits, "split=channels"},        {"inceptionv3", {3, 75, 75, 10}, "split=width"}};
}

// What split.h promises to whoever runs the parts.
TEST(Split, PartsMeetLayerByLayer) {
  for (const auto& [network, shape, words] : cases()) {
    SCOPED_TRACE(network + " " + words);
    const auto whole = graph_of(network, shape);
    std::vector<ModelGraph> parts;
    for (int part = 0; part < 3; ++part) parts.push_back(split_graph(whole, options_of(words), part, 3));
    const auto& first = parts[0].layers;
    for (const auto& graph : parts) {
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
          auto& size = expected[static_cast<std::size_t>(layer.piece->dimension)];
          size = 0;
          for (const auto& range : layer.piece->ranges) size += range.size();
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
        EXPECT_EQ(layer.exchange->before, first[i].exchange->before);
        EXPECT_EQ(layer.exchange->after, first[i].exchange->after);
      }
      EXPECT_EQ(covered + std::count_if(graph.layers.begin(), graph.layers.end(), communicates), static_cast<int>(graph.layers.size()));
      EXPECT_FALSE(graph.layers.back().piece) << "logits are whole";
      EXPECT_EQ(graph.layers.back().shape, whole.layers.back().shape);
      const auto specs = graph.parameter_specs(), of_whole = whole.parameter_specs();
      ASSERT_EQ(specs.size(), of_whole.size());
      for (std::size_t i = 0; i < specs.size(); ++i) {
        EXPECT_EQ(specs[i].name, of_whole[i].name);
        EXPECT_EQ(specs[i].piece ? specs[i].piece->whole : specs[i].shape, of_whole[i].shape) << specs[i].name;
        EXPECT_FALSE(specs[i].piece && specs[i].partial_gradient) << specs[i].name;
      }
    }
  }
}

/// Of all parts' sums: the whole network's work is done once, but for what every part does.
TEST(Split, PartsDivideParametersAndWork) {
  const auto shares = [](const std::string& network, const SampleShape& shape, const std::string& words, int parts) {
    const auto whole = graph_of(network, shape);
    const auto part = split_graph(whole, options_of(words), 0, parts);
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
  const auto plain = traffic_of(split_graph(whole, options_of("split=megatron"), 0, 2));
  constexpr std::int64_t kAllReduce = kPlaces * kFeatures;  // 2 (parts - 1) / parts of it
  EXPECT_EQ(plain.forward_elements, (2 * kLayers + 1) * kAllReduce + kPlaces * kWords / 2);
  EXPECT_EQ(plain.backward_elements, (2 * kLayers + 1) * kAllReduce);
  EXPECT_EQ(plain.gradient_elements, 0);
  const auto sequence = traffic_of(split_graph(whole, options_of("split=megatron,sequence=on"), 0, 2));
  EXPECT_EQ(sequence.forward_elements, plain.forward_elements);
  EXPECT_EQ(sequence.backward_elements, plain.backward_elements);
  // Five layer norms, the positions and four biases after rows.
  EXPECT_EQ(sequence.gradient_elements, 5 * 2 * kFeatures + kPlaces * kFeatures + 4 * kFeatures);
}

std::string error_of(const std::string& network, const SampleShape& shape, const std::string& words, int part, int parts) {
  try {
    split_graph(graph_of(network, shape), options_of(words), part, parts);
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
  EXPECT_EQ(error_of("lenet", kDigits, "sequence=maybe", 0, 2), "[tensor] sequence is on or off; got 'maybe'");
  EXPECT_EQ(error_of("lenet", kDigits, "split=channels", 2, 2), "[split] there is no such part; got part 2 of 2");
}

}  // namespace
}  // namespace ddl
