#include "ddl/nn/network.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/core/GradMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include "ddl/core/error.h"
#include "ddl/core/random.h"
#include "ddl/core/spec.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/operators/dropout.h"
#include "ddl/nn/graph_builder.h"
#include "ddl/nn/matrix_products.h"
#include "ddl/nn/network_testing.h"
#include "ddl/nn/one_thread_testing.h"
#include "ddl/nn/tensors_testing.h"

namespace ddl {
namespace {

Network make(const std::string& text, const SampleShape& shape, NetworkOptions options = {}) {
  const auto spec = parse_spec(text);
  return Network(builtin_models().at(spec.name).make(spec, shape), options);
}

Network mnist(const std::string& name, NetworkOptions options) { return make(name, {1, 28, 28, 10}, options); }

at::Tensor images(std::int64_t n, at::ScalarType type) { return made_up_images(n, {1, 28, 28, 10}, type); }

TEST(Network, BothKernelsComputeTheSame) {
  for (const auto* name : {"lenet", "smallcnn", "resnet18", "mobilenetv2[dropout=0]"}) {
    auto fast = mnist(name, {at::kDouble, at::kCPU, Kernels::fast, 3});
    auto torch = mnist(name, {at::kDouble, at::kCPU, Kernels::torch, 3});
    const auto x = images(2, at::kDouble);
    const auto a = fast.forward({x}, true).logits, b = torch.forward({x}, true).logits;
    EXPECT_LT(largest(a - b), 1e-10 * (1 + largest(b))) << name;
    a.sum().backward();
    b.sum().backward();
    for (std::size_t i = 0; i < fast.parameters().size(); ++i)
      EXPECT_LT(largest(fast.parameters()[i].grad() - torch.parameters()[i].grad()), 1e-8 * (1 + largest(torch.parameters()[i].grad())))
          << name << " " << fast.parameter_names()[i];
  }
}

TEST(Network, PointwiseConvolutionsOfFewSamplesAreProductsWithTheSameGradients) {
  const OneThread one;
  for (const bool bias : {false, true})
    for (const std::int64_t samples : {1, 4, 16}) {
      GraphBuilder builder("pointwise", {64, 5, 3});
      GraphBuilder::Convolution how;
      how.bias = bias;
      builder.conv2d("conv", builder.relu("relu", builder.conv2d("first", GraphBuilder::kInput, 64, {1}, how)), 96, {1}, how);
      Network net(std::move(builder).finish(), {.type = at::kDouble});
      ASSERT_EQ(net.memory_format(), at::MemoryFormat::ChannelsLast);
      const auto x = at::rand({samples, 64, 5, 3}, at::kDouble).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
      const auto out = net.forward({x}, true).logits;
      EXPECT_EQ(out.sizes(), at::IntArrayRef({samples, 96, 5, 3}));
      EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
      out.pow(2).sum().backward();

      std::vector<at::Tensor> copies;
      for (const auto& parameter : net.parameters()) copies.push_back(parameter.detach().clone().requires_grad_());
      const auto of = [&](std::size_t i) { return bias ? copies[i] : at::Tensor(); };
      const auto plain = x.detach().contiguous().requires_grad_();
      const auto expected = at::conv2d(at::conv2d(plain, copies[0], of(1)).relu(), copies[bias ? 2 : 1], of(3));
      expected.pow(2).sum().backward();
      EXPECT_LT(largest(out - expected), 1e-12 * largest(expected));
      EXPECT_LT(largest(x.grad() - plain.grad()), 1e-12 * largest(plain.grad()));
      for (std::size_t i = 0; i < copies.size(); ++i) {
        EXPECT_LT(largest(net.parameters()[i].grad() - copies[i].grad()), 1e-12 * largest(copies[i].grad())) << i;
        // A gradient that lies otherwise than its parameter would be copied on its way into a bucket.
        EXPECT_EQ(net.parameters()[i].grad().strides(), net.parameters()[i].strides()) << i;
      }
    }
}

int count_nodes(const at::Tensor& from, const std::string& name) {
  std::set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> open{from.grad_fn().get()};
  int count = 0;
  while (!open.empty()) {
    auto* const node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    count += node->name() == name;
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
  }
  return count;
}

// In the same job gradients add up as they lie: whoever asks says it of all workers.
TEST(Network, PlanesLieDenselyWhereThatIsAskedAndNothingIsInGroups) {
  const SampleShape pictures{3, 32, 32, 10};
  for (const auto& [name, dense] : {std::pair{"resnet18", at::MemoryFormat::Contiguous}, {"mobilenetv2", at::MemoryFormat::ChannelsLast}}) {
    const auto graph = builtin_models().at(name).make(parse_spec(name), pictures);
    EXPECT_EQ(Network(graph, {}).memory_format(), at::MemoryFormat::ChannelsLast) << name;
    Network asked(graph, {.dense_planes = true});
    EXPECT_EQ(asked.memory_format(), dense) << name;
    // Parameters lie as they do.
    EXPECT_TRUE(asked.parameters().front().is_contiguous(dense)) << name;
  }
}

// A convolution or a linear layer computes the ReLU that alone reads it, unless a max pool does: of ReLU's own nodes of autograd none is left.
TEST(Network, ReLUsAreComputedAsTheirInputsAreWritten) {
  const OneThread one;
  const SampleShape pictures{3, 32, 32, 10};
  for (const std::string name : {"vgg11[dropout=0]", "alexnet[dropout=0]", "mlp", "lenet", "smallcnn"}) {
    auto net = make(name, pictures);
    NetworkInput input;
    input.images = made_up_images(3, pictures, at::kFloat).contiguous(net.memory_format());
    EXPECT_EQ(count_nodes(net.forward(input, true).logits, "ReluBackward0"), 0) << name;
  }
}

TEST(Network, ProductsAreThoseThatPlansAndPredictionsTakeForSuch) {
  const OneThread one;
  const SampleShape pictures{3, 32, 32, 10}, words{.classes = 50, .objective = Objective::translation, .source_length = 8, .target_length = 8};
  for (const std::string name : {"resnet18", "resnet50", "vgg11[dropout=0]", "alexnet[dropout=0]", "mobilenetv2[dropout=0]", "lenet", "mlp", "transformer[hidden=16,heads=2,layers=2,dropout=0]"})
    for (const std::int64_t samples : {1, 4, 20}) {
      const bool of_words = name.starts_with("transformer");
      auto net = make(name, of_words ? words : pictures);
      int expected = 0;
      for (int layer = 0; layer < static_cast<int>(net.graph().layers.size()); ++layer) {
        const auto& of = net.graph().layers[static_cast<std::size_t>(layer)];
        for (int parameter = 0; parameter < static_cast<int>(of.parameters.size()); ++parameter) expected += beside_gradient(net.graph(), layer, parameter, samples).has_value();
        // Of a weight of another layer.
        expected += !of.borrowed.empty();
      }
      NetworkInput input;
      if (of_words)
        input.source = at::full({samples, 8}, 5, at::kLong), input.target = at::full({samples, 7}, 5, at::kLong);
      else
        input.images = made_up_images(samples, pictures, at::kFloat).contiguous(net.memory_format());
      const auto logits = net.forward(input, true).logits;
      EXPECT_EQ(count_nodes(logits, "ProductBackward") + count_nodes(logits, "ProjectionsBackward") + count_nodes(logits, "WinogradBackward") + count_nodes(logits, "LookUpBackward"), expected) << name << " " << samples;
    }
}

TEST(Network, GradientsEqualFiniteDifferences) {
  auto net = mnist("lenet", {at::kDouble, at::kCPU, Kernels::fast, 5});
  const auto x = images(3, at::kDouble);
  const auto loss = [&] { return net.forward({x}, true).logits.pow(2).sum(); };
  loss().backward();
  c10::NoGradGuard guard;
  for (auto& parameter : net.parameters()) {
    auto flat = parameter.view({-1});
    const auto expected = parameter.grad().view({-1})[0].item<double>();
    constexpr double kStep = 1e-6;
    const double start = flat[0].item<double>();
    flat[0] = start + kStep;
    const double above = loss().item<double>();
    flat[0] = start - kStep;
    const double below = loss().item<double>();
    flat[0] = start;
    EXPECT_NEAR((above - below) / (2 * kStep), expected, 1e-6 * (1 + std::abs(expected)));
  }
}

TEST(Network, BatchNormKeepsRunningStatisticsOnlyInTraining) {
  auto net = mnist("resnet18", {});
  const auto before = net.buffers()[0].clone();
  net.forward({images(4, at::kFloat)}, false);
  EXPECT_TRUE(at::equal(before, net.buffers()[0]));
  net.forward({images(4, at::kFloat)}, true);
  EXPECT_FALSE(at::equal(before, net.buffers()[0]));
}

// Small samples, so that all of them take seconds. What they compute is held against PyTorch in tests/numerics_test.py.
TEST(Network, EveryOneGoesForwardAndBackward) {
  for (const auto& entry : builtin_models().entries()) {
    const auto small = small_trial(entry.name);
    auto net = make(small.spec, small.shape);
    const auto given = made_up_samples(2, small.shape, at::kFloat);
    const auto output = net.forward(given.input, true);
    auto loss = loss_of(output, given.labels, small.shape);
    EXPECT_TRUE(std::isfinite(loss.item<double>())) << entry.name;
    EXPECT_EQ(output.auxiliary.defined(), net.graph().auxiliary >= 0) << entry.name;
    loss.backward();
    for (std::size_t i = 0; i < net.parameters().size(); ++i) {
      ASSERT_TRUE(net.parameters()[i].grad().defined()) << entry.name << " " << net.parameter_names()[i];
      EXPECT_TRUE(std::isfinite(largest(net.parameters()[i].grad()))) << entry.name << " " << net.parameter_names()[i];
    }
    const c10::NoGradGuard guard;
    const auto evaluated = net.forward(given.input, false);
    EXPECT_FALSE(evaluated.auxiliary.defined()) << entry.name;
    auto shape = net.graph().layers.back().shape;
    shape.insert(shape.begin(), 2);
    EXPECT_EQ(evaluated.logits.sizes(), at::IntArrayRef(shape)) << entry.name;
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

// What lives between forward and backward is what the graph says, with the output and what each batch norm keeps of the batch.
TEST(Network, HoldsForBackwardWhatItsGraphSays) {
  const SampleShape image{3, 32, 32, 10};
  constexpr std::int64_t kSamples = 8;
  for (const auto* name : {"lenet", "smallcnn", "mlp", "resnet18", "resnet50", "resnet50v2", "vgg11", "mobilenetv2", "alexnet", "gpt", "transformer[layers=2]"}) {
    const auto spec = parse_spec(name);
    const auto small = small_trial(spec.name);
    const auto words = small.shape.objective != Objective::classification;
    auto net = words ? make(spec.name == "gpt" ? small.spec : name, small.shape) : make(name, image);
    const auto given = made_up_samples(kSamples, words ? small.shape : image, at::kFloat);
    const auto held = std::make_shared<Held>();
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, held);
    const auto output = net.forward(given.input, true);
    std::int64_t expected = output.logits.nbytes();
    auto graph = net.graph();
    if (const auto own = kept_by_own_kernels(graph); net.kernels() == Kernels::fast)
      for (std::size_t layer = 0; layer < own.size(); ++layer) graph.layers[layer].keeps = own[layer];
    count_kept(graph);
    for (const auto& layer : graph.layers) {
      // The samples were there before.
      if (layer.kind != LayerKind::input) expected += 4 * kSamples * layer.kept_elements;
      for (const auto& statistic : layer.statistics) expected += 4 * statistic.elements();
    }
    EXPECT_NEAR(static_cast<double>(held->bytes()), static_cast<double>(expected), 0.03 * static_cast<double>(expected)) << name;
  }
}

TEST(Network, NamesWhatItIsNotGivenAndWhatDoesNotFit) {
  auto net = mnist("lenet", {});
  const auto said = [&](const NetworkInput& input) -> std::string {
    try {
      net.forward(input, false);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(said({}), "[lenet] nothing was given for its input 'input'");
  EXPECT_EQ(said({at::zeros({2, 3, 28, 28})}), "[lenet] input 'input' does not fit; got samples of 3x28x28, expected 1x28x28");
}

TEST(Network, AFrozenEncoderStandsStill) {
  const SampleShape shape{3, 32, 32, 20, Objective::captioning, 0, 6};
  auto net = make("captioner[depth=18,hidden=16]", shape);
  EXPECT_TRUE(net.buffers().empty());
  ASSERT_FALSE(net.frozen().empty());
  const auto given = made_up_samples(2, shape, at::kFloat);
  loss_of(net.forward(given.input, true), given.labels, shape).backward();
  for (const auto& parameter : net.frozen()) EXPECT_FALSE(parameter.requires_grad());
  auto trained = make("captioner[depth=18,hidden=16,encoder=trained]", shape);
  EXPECT_EQ(trained.frozen().size(), 0U);
  EXPECT_EQ(trained.parameters().size(), net.parameters().size() + net.frozen().size());
}

// Later words must not be seen, in a decoder, and padding of the source by nobody.
TEST(Network, DecodersSeeOnlyWhatIsKnown) {
  const auto shape = small_trial("transformer").shape;
  auto net = make("transformer[layers=2]", shape);
  auto given = made_up_samples(2, shape, at::kFloat).input;
  const c10::NoGradGuard guard;
  const auto before = net.forward(given, false).logits;
  auto later = given;
  later.target = given.target.clone();
  later.target.select(1, 3).fill_(7);
  const auto after = net.forward(later, false).logits;
  EXPECT_LT(largest((before - after).narrow(1, 0, 3)), 1e-5);
  EXPECT_GT(largest((before - after).narrow(1, 3, 1)), 1e-3);

  // The same sentence with more padding behind it.
  const auto words = given.source.size(1) - 1;
  given.source.select(1, words).fill_(SampleShape::kPadding);
  auto shorter = given;
  shorter.source = given.source.narrow(1, 0, words);
  EXPECT_LT(largest(net.forward(given, false).logits - net.forward(shorter, false).logits), 1e-5);
}

TEST(Network, TiedWeightsAreOneParameterWithTheGradientOfBothUses) {
  const auto shape = small_trial("gpt").shape;
  auto net = make("gpt[hidden=16,layers=1,heads=2,dropout=0]", shape, {at::kDouble});
  const auto given = made_up_samples(2, shape, at::kDouble);
  const auto loss = [&] { return loss_of(net.forward(given.input, true), given.labels, shape); };
  loss().backward();
  EXPECT_EQ(net.parameter_names()[0], "wte.weight");
  const c10::NoGradGuard guard;
  auto table = net.parameters()[0];
  const auto word = given.input.target[0][1].item<std::int64_t>();
  const double expected = table.grad()[word][3].item<double>(), start = table[word][3].item<double>();
  table[word][3] = start + 1e-6;
  const double above = loss().item<double>();
  table[word][3] = start - 1e-6;
  EXPECT_NEAR((above - loss().item<double>()) / 2e-6, expected, 1e-6);
}

/// One dropout over `elements`, of samples with these numbers.
at::Tensor dropped(std::int64_t elements, std::vector<std::int64_t> samples, std::int64_t step, std::uint64_t seed, at::ScalarType type = at::kFloat) {
  GraphBuilder builder("dropout", {1, 1, elements});
  builder.dropout("drop", GraphBuilder::kInput, 0.3);
  Network net(std::move(builder).finish(), {.type = type, .seed = seed});
  NetworkInput input{at::ones({static_cast<std::int64_t>(samples.size()), 1, 1, elements}, type)};
  input.samples = std::move(samples);
  input.step = step;
  return net.forward(input, true).logits;
}

TEST(Dropout, DrawsBySampleHoweverABatchIsDivided) {
  const auto whole = dropped(1000, {4, 17, 3, 99}, 5, 1);
  EXPECT_TRUE(at::equal(whole.narrow(0, 1, 1), dropped(1000, {17}, 5, 1)));
  EXPECT_TRUE(at::equal(at::cat({whole[3].unsqueeze(0), whole[0].unsqueeze(0)}), dropped(1000, {99, 4}, 5, 1)));
  EXPECT_TRUE(at::equal(whole.ne(0), dropped(1000, {4, 17, 3, 99}, 5, 1, at::kDouble).ne(0)));
  EXPECT_FALSE(at::equal(whole, dropped(1000, {4, 17, 3, 99}, 6, 1)));
  EXPECT_FALSE(at::equal(whole, dropped(1000, {4, 17, 3, 99}, 5, 2)));
  EXPECT_FALSE(at::equal(whole[0], whole[1]));
}

// Counts of 10^6 draws deviate by 458 for a rate of 0.3: five deviations. Neighbours, in a sample and between samples and
// steps, fall together as often as independent ones do.
TEST(Dropout, DropsAtItsRateAndIndependently) {
  const auto a = dropped(1'000'000, {1, 2}, 5, 1), b = dropped(1'000'000, {1, 2}, 6, 1);
  const auto fell = a.eq(0).to(at::kDouble).view({2, -1}), fell_next = b.eq(0).to(at::kDouble).view({2, -1});
  EXPECT_NEAR(fell[0].sum().item<double>(), 300'000, 5 * 458);
  EXPECT_NEAR(a.sum().item<double>() / 2e6, 1, 5 * 0.00066);
  const auto together = [](const at::Tensor& x, const at::Tensor& y) { return x.mul(y).mean().item<double>(); };
  EXPECT_NEAR(together(fell[0], fell[1]), 0.09, 0.0015);
  EXPECT_NEAR(together(fell[0], fell_next[0]), 0.09, 0.0015);
  for (const std::int64_t lag : {1, 2, 8, 64, 4096})
    EXPECT_NEAR(together(fell[0].narrow(0, 0, 1'000'000 - lag), fell[0].narrow(0, lag, 1'000'000 - lag)), 0.09, 0.0015) << lag;
}

// As on a GPU: the same elements fall, of the same sizes, to the bit.
TEST(Dropout, AtensOperatorsDropWhatTheKernelDrops) {
  const std::vector<std::int64_t> keys{0, -1, 0x123456789abcdef0, 77};
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const double rate : {0.1, 0.5, 0.999}) {
      const auto from = at::rand({4, 33, 71}, at::kDouble).add(0.5).to(type);
      const auto ours = drop(from, keys, rate);
      EXPECT_TRUE(at::equal(drop(from, keys, rate, true), ours)) << c10::toString(type) << " " << rate;
      EXPECT_GT(ours.eq(0).sum().item<std::int64_t>(), 0);
      EXPECT_LT(ours.eq(0).sum().item<std::int64_t>(), from.numel());
      EXPECT_TRUE(at::equal(drop(from.transpose(1, 2), keys, rate, true), drop(from.transpose(1, 2), keys, rate)));
    }
  EXPECT_EQ(drop(at::empty({0, 5}), {}, 0.5, true).sizes(), (at::IntArrayRef{0, 5}));
}

TEST(Dropout, GradientsPassWhereValuesDid) {
  GraphBuilder builder("dropout", {2, 3, 4});
  builder.dropout("drop", builder.conv2d("conv", GraphBuilder::kInput, 2, {1}), 0.5);
  Network net(std::move(builder).finish(), {.type = at::kDouble});
  NetworkInput input{at::rand({3, 2, 3, 4}, at::kDouble)};
  input.samples = {0, 1, 2};
  const auto out = net.forward(input, true).logits;
  out.sum().backward();
  // The bias' gradient is the sum of what every place passes on: 2 where it was kept.
  const auto expected = out.ne(0).to(at::kDouble).mul(2).sum({0, 2, 3});
  EXPECT_LT(largest(net.parameters()[1].grad() - expected), 1e-12);
  EXPECT_TRUE(at::equal(net.forward(input, false).logits.ne(0), at::ones({3, 2, 3, 4}, at::kBool)));
}

TEST(Wait, TakesItsTimeBothWaysAndPassesGradientsOn) {
  constexpr double kMs = 3;
  auto net = make("null[ms=3,layers=2,backward=2]", {3, 8, 8, 10});
  const auto x = at::rand({4, 3, 8, 8});
  const auto begin = now();
  const auto logits = net.forward({x}, true).logits;
  const auto between = now();
  logits.sum().backward();
  EXPECT_GE(seconds(between - begin), 2 * kMs * 1e-3);
  EXPECT_GE(seconds(now() - between), 2 * 2 * kMs * 1e-3);
  const auto& own = net.parameters();
  ASSERT_EQ(own.size(), 4U);
  EXPECT_TRUE(at::allclose(logits, at::linear(at::linear(x.mean({2, 3}), own[0], own[1]), own[2], own[3])));
  EXPECT_TRUE(at::allclose(own[3].grad(), at::full({10}, 4.0)));
  EXPECT_GT(largest(own[0].grad()), 0);
}

TEST(Wait, OfAGradientOfWeightsIsForThatAlone) {
  auto net = make("null[ms=3,layers=2,weights=2]", {3, 8, 8, 10});
  const auto x = at::rand({4, 3, 8, 8});
  const auto logits = net.forward({x}, true).logits;
  // The shortest of several: a machine that others share may keep a thread waiting for longer than any layer of this.
  double least = 1;
  for (int i = 0; i < 10; ++i) {
    const auto begin = now();
    torch::autograd::grad({logits.sum()}, {net.parameters()[1]}, {}, true);  // a bias
    least = std::min(least, seconds(now() - begin));
  }
  EXPECT_LT(least, 5e-3);
  const auto begin = now();
  logits.sum().backward();
  EXPECT_GE(seconds(now() - begin), 2 * 6e-3);
  EXPECT_GT(largest(net.parameters()[0].grad()), 0);
}

}  // namespace
}  // namespace ddl
