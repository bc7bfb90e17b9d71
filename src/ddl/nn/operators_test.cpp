#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/core/error.h"
#include "ddl/nn/gradient_place.h"
#include "ddl/nn/graph_builder.h"
#include "ddl/nn/network.h"
#include "ddl/nn/one_thread_testing.h"
#include "ddl/nn/operators/batch_norm.h"
#include "ddl/nn/operators/product.h"
#include "ddl/nn/tensors_testing.h"

// Operators that are nodes of autograd of their own, against ATen's.
namespace ddl {
namespace {

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& from) {
  std::vector<at::Tensor> to;
  for (const auto& each : from) to.push_back(each.detach().clone().requires_grad_(each.requires_grad()));
  return to;
}

struct Normalised {
  bool adds;
  std::optional<LayerKind> activation;
};

/// Maps -> conv -> batch norm -> what follows: the convolution makes what is normalised.
struct Normal {
  Layer layer{.name = "norm", .kind = LayerKind::batch_norm2d};
  Layer activation{};
  LayerTensors own;
  at::Tensor maps, added;

  Normal(std::int64_t samples, std::int64_t channels, std::int64_t height, std::int64_t width, at::ScalarType type) {
    maps = channels_last({samples, channels, height, width}, type).mul(3).add(5).requires_grad_();
    added = channels_last({samples, channels, height, width}, type).requires_grad_();
    own.parameters = {at::randn({channels}, type).add(0.5).requires_grad_(), at::randn({channels}, type).requires_grad_()};
    own.statistics = {at::randn({channels}, type), at::rand({channels}, type)};
  }
  NormaliseChain chain(const Normalised& what) {
    NormaliseChain chain;
    if (what.adds) chain.added = added, ++chain.layers;
    if (what.activation) activation.kind = *what.activation, chain.activation = &activation, ++chain.layers;
    return chain;
  }
  std::vector<at::Tensor> leaves(bool adds) const {
    std::vector<at::Tensor> all{maps, own.parameters[0], own.parameters[1]};
    if (adds) all.push_back(added);
    return all;
  }
};

/// What ATen makes of it, in the type it is given.
at::Tensor by_aten(Normal& n, const Normalised& what) {
  auto out = at::batch_norm(n.maps, n.own.parameters[0], n.own.parameters[1], n.own.statistics[0], n.own.statistics[1], true, n.layer.attributes.momentum, n.layer.attributes.epsilon, false);
  if (what.adds) out = out.add(n.added);
  if (what.activation == LayerKind::relu) out = out.relu();
  if (what.activation == LayerKind::relu6) out = at::hardtanh(out, 0, 6);
  return out;
}

const std::vector<Normalised> kForms{{false, {}}, {false, LayerKind::relu}, {false, LayerKind::relu6}, {true, {}}, {true, LayerKind::relu}, {true, LayerKind::relu6}};

// In fp64 all digits but the last few; in fp32 no farther from the fp64 result than ATen's own by a factor of 3 (most are nearer), and not more than 2e-6 of the largest element where that is farther.
TEST(NormaliseAnd, IsBatchNormThenWhatFollows) {
  at::manual_seed(5);
  for (const auto& what : kForms)
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{{2, 64, 9, 8}, {1, 70, 4, 3}, {3, 33, 8, 8}, {4, 5, 13, 11}, {8, 256, 1, 1}}) {
      Normal wide(sizes[0], sizes[1], sizes[2], sizes[3], at::kDouble), ours = wide, narrow = wide, plain = wide;
      for (auto* const each : {&ours, &narrow, &plain}) {
        const auto type = each == &ours ? at::kDouble : at::kFloat;
        for (auto* const tensor : {&each->maps, &each->added}) *tensor = tensor->detach().to(type).clone().requires_grad_();
        for (auto& tensor : each->own.parameters) tensor = tensor.detach().to(type).clone().requires_grad_();
        for (auto& tensor : each->own.statistics) tensor = tensor.to(type).clone();
      }
      const auto weight = channels_last(sizes, at::kDouble);
      const auto backward = [&](const at::Tensor& out) { out.mul(weight.to(out.scalar_type())).sum().backward(); };
      const auto expected = by_aten(wide, what), got = normalise_and(ours.chain(what), ours.layer, ours.own, ours.maps), in_fp32 = normalise_and(narrow.chain(what), narrow.layer, narrow.own, narrow.maps),
                 atens = by_aten(plain, what);
      for (const auto& out : {expected, got, in_fp32, atens}) backward(out);
      EXPECT_TRUE(got.is_contiguous(at::MemoryFormat::ChannelsLast));
      const auto compare = [&](const at::Tensor& exact, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c, const char* of) {
        const auto label = fmt::format("{} of {}x{}x{}x{}, adds {}, activates {}", of, sizes[0], sizes[1], sizes[2], sizes[3], what.adds, what.activation.has_value());
        const double size = 1 + largest(exact);
        EXPECT_LT(largest(a - exact), 1e-11 * size) << label;
        EXPECT_LT(largest(b - exact), std::max(3 * largest(c - exact), 2e-6 * size)) << label;
      };
      compare(expected, got, in_fp32, atens, "output");
      for (std::size_t i = 0; i < wide.leaves(what.adds).size(); ++i)
        compare(wide.leaves(what.adds)[i].grad(), ours.leaves(what.adds)[i].grad(), narrow.leaves(what.adds)[i].grad(), plain.leaves(what.adds)[i].grad(), "gradient");
      for (std::size_t i = 0; i < 2; ++i) compare(wide.own.statistics[i], ours.own.statistics[i], narrow.own.statistics[i], plain.own.statistics[i], "statistics");
    }
}

TEST(NormaliseAnd, IsTheSameForAnyNumberOfThreads) {
  const auto run = [](int threads) {
    const OneThread kept;
    at::manual_seed(3);
    Normal n(4, 192, 24, 24, at::kFloat);
    at::set_num_threads(threads);
    const auto out = normalise_and(n.chain({true, LayerKind::relu}), n.layer, n.own, n.maps);
    out.square().sum().backward();
    auto all = n.leaves(true);
    for (auto& each : all) each = each.grad();
    all.push_back(out.detach());
    return all;
  };
  const auto one = run(1), two = run(2);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], two[i])) << i;
}

/// conv, batch norm, relu, conv, batch norm, add, relu; with a layer beside that reads the first batch norm's output where `read_twice`.
ModelGraph block(bool read_twice, bool six) {
  GraphBuilder builder("block", {32, 6, 5});
  const int first = builder.batch_norm2d("norm1", builder.conv2d("conv1", GraphBuilder::kInput, 32, {3, 1, 1}));
  const int active = six ? builder.relu6("relu1", first) : builder.relu("relu1", first);
  const int second = builder.batch_norm2d("norm2", builder.conv2d("conv2", active, 32, {3, 1, 1}));
  builder.relu("relu2", builder.add("add", second, read_twice ? first : active));
  return std::move(builder).finish();
}

// A stage may end anywhere: layers one by one, with what a pass keeps at each border, are layers at once.
TEST(NormaliseAnd, OfLayersOneByOneIsTheSameBits) {
  for (const bool read_twice : {false, true})
    for (const bool six : {false, true}) {
      Network at_once(block(read_twice, six), {}), alone(block(read_twice, six), {});
      const auto x = channels_last({3, 32, 6, 5}, at::kFloat);
      const auto together = at_once.forward({x}, true).logits;
      std::vector<at::Tensor> values(alone.graph().layers.size());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = alone.forward_layer(i, values, {x}, true);
      EXPECT_TRUE(at::equal(together, values.back()));
      together.square().sum().backward();
      values.back().square().sum().backward();
      for (std::size_t i = 0; i < alone.parameters().size(); ++i) EXPECT_TRUE(at::equal(at_once.parameters()[i].grad(), alone.parameters()[i].grad())) << alone.parameter_names()[i];
      for (std::size_t i = 0; i < alone.buffers().size(); ++i) EXPECT_TRUE(at::equal(at_once.buffers()[i], alone.buffers()[i])) << i;
    }
}

// One sample whose maps are one place: its variance is not known, and the running one stays as it was. ATen makes it NaN, for good.
TEST(NormaliseBatch, OfOneValueHasNoVariance) {
  GraphBuilder builder("one", {6, 1, 1});
  builder.batch_norm2d("norm", builder.conv2d("conv", GraphBuilder::kInput, 32, {1, 1, 0}));
  const auto graph = std::move(builder).finish();
  for (const auto kernels : {Kernels::fast, Kernels::torch})
    for (const auto type : {at::kFloat, at::kDouble}) {
      NetworkOptions options;
      options.kernels = kernels;
      options.type = type;
      Network network(graph, options);
      const auto before = network.buffers()[1].clone(), mean = network.buffers()[0].clone();
      const auto out = network.forward({at::randn({1, 6, 1, 1}, type)}, true).logits;
      out.square().sum().backward();
      EXPECT_TRUE(at::equal(network.buffers()[1], before));
      EXPECT_FALSE(at::equal(network.buffers()[0], mean)) << "there is a mean";
      for (const auto& parameter : network.parameters()) EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
      network.forward({at::randn({2, 6, 1, 1}, type)}, true);
      EXPECT_FALSE(at::equal(network.buffers()[1], before));
      EXPECT_TRUE(network.buffers()[1].isfinite().all().item<bool>());
    }
}

TEST(NormaliseAnd, PassesNotANumberOn) {
  Normal n(2, 16, 3, 3, at::kFloat);
  n.maps.mutable_data_ptr<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  const auto out = normalise_and(n.chain({false, LayerKind::relu}), n.layer, n.own, n.maps);
  out.sum().backward();
  EXPECT_TRUE(out[0][5].isnan().all().item<bool>());
  EXPECT_TRUE(n.maps.grad()[0][5].isnan().all().item<bool>());
  EXPECT_FALSE(out[0][4].isnan().any().item<bool>());
  EXPECT_FALSE(n.maps.grad()[1][4].isnan().any().item<bool>());
}

struct Shape {
  std::int64_t samples, channels, height, width, out, kernel, stride, padding;
};

std::optional<Windows> windows_of(const Shape& s) {
  const auto places = [&](std::int64_t size) { return (size + 2 * s.padding - s.kernel) / s.stride + 1; };
  return Windows{s.samples, s.height, s.width, s.channels, s.kernel, s.kernel, s.stride, s.stride, s.padding, s.padding, places(s.height), places(s.width)};
}

TEST(Multiply, IsAConvolution) {
  for (const auto type : {at::kFloat, at::kDouble})
    for (const bool biased : {false, true})
      for (const auto& s : std::vector<Shape>{{2, 8, 5, 4, 6, 3, 1, 1}, {1, 3, 7, 6, 4, 5, 2, 2}, {4, 16, 2, 2, 8, 3, 1, 1}, {2, 5, 6, 6, 7, 1, 2, 0}, {2, 5, 3, 4, 7, 1, 1, 0}, {1, 4, 3, 3, 2, 3, 2, 0}, {3, 4, 1, 1, 2, 3, 1, 1}, {2, 3, 9, 9, 4, 2, 3, 0}}) {
        const auto x = channels_last({s.samples, s.channels, s.height, s.width}, type).requires_grad_(), weight = channels_last({s.out, s.channels, s.kernel, s.kernel}, type).requires_grad_();
        const auto bias = biased ? at::randn({s.out}, type).requires_grad_() : at::Tensor();
        const auto out = multiply(x, weight, bias, Sharing::none, windows_of(s));
        const auto other = copies({x, weight, biased ? bias : weight});
        const auto expected = at::conv2d(other[0].to(at::kDouble), other[1].to(at::kDouble), biased ? other[2].to(at::kDouble) : at::Tensor(), s.stride, s.padding);
        ASSERT_EQ(out.sizes(), expected.sizes());
        EXPECT_TRUE(out.is_contiguous(at::MemoryFormat::ChannelsLast));
        const auto gradient = at::randn(out.sizes(), at::kDouble);
        out.mul(gradient.to(type)).sum().backward();
        expected.mul(gradient).sum().backward();
        const double within = type == at::kDouble ? 1e-12 : 1e-5;
        EXPECT_LT(largest(out - expected), within * (1 + largest(expected)));
        EXPECT_LT(largest(x.grad() - other[0].grad()), within * (1 + largest(other[0].grad())));
        EXPECT_LT(largest(weight.grad() - other[1].grad()), within * (1 + largest(other[1].grad())));
        EXPECT_EQ(weight.grad().strides(), weight.strides());
        if (biased) {
          EXPECT_LT(largest(bias.grad() - other[2].grad()), within * (1 + largest(other[2].grad())));
        }
      }
}

TEST(Multiply, IsALinearLayer) {
  const auto x = at::randn({2, 3, 5}, at::kDouble).requires_grad_(), weight = at::randn({4, 5}, at::kDouble).requires_grad_(), bias = at::randn({4}, at::kDouble).requires_grad_();
  const auto other = copies({x, weight, bias});
  const auto out = multiply(x, weight, bias, Sharing::none), expected = at::linear(other[0], other[1], other[2]);
  out.square().sum().backward();
  expected.square().sum().backward();
  EXPECT_LT(largest(out - expected), 1e-13);
  for (const auto& [ours, atens] : std::vector<std::pair<at::Tensor, at::Tensor>>{{x, other[0]}, {weight, other[1]}, {bias, other[2]}}) EXPECT_LT(largest(ours.grad() - atens.grad()), 1e-12);
}

TEST(Multiply, AddsToTheGradientThatIsThere) {
  const auto x = at::randn({3, 5}, at::kDouble), weight = at::randn({4, 5}, at::kDouble).requires_grad_();
  multiply(x, weight, {}, Sharing::none).sum().backward();
  const auto first = weight.grad().clone();
  const auto* const memory = weight.grad().const_data_ptr();
  multiply(x, weight, {}, Sharing::none).mul(2).sum().backward();
  EXPECT_LT(largest(weight.grad() - first * 3), 1e-12);
  EXPECT_EQ(weight.grad().const_data_ptr(), memory);
  // Who asks for a gradient gets it, and what is there stays.
  const auto asked = torch::autograd::grad({multiply(x, weight, {}, Sharing::none).sum()}, {weight});
  EXPECT_LT(largest(asked[0] - first), 1e-12);
  EXPECT_LT(largest(weight.grad() - first * 3), 1e-12);
  // Two uses within one pass.
  weight.mutable_grad().reset();
  multiply(x, weight, {}, Sharing::others).add(multiply(x, weight, {}, Sharing::others)).sum().backward();
  EXPECT_LT(largest(weight.grad() - first * 2), 1e-12);
  multiply(x, weight, {}, Sharing::others).add(multiply(x, weight, {}, Sharing::others)).sum().backward();
  EXPECT_LT(largest(weight.grad() - first * 4), 1e-12);
}

struct Gathered final : GradientPlace {
  at::Tensor& memory;
  int &written, &copied;
  Gathered(at::Tensor& m, int& w, int& c) : memory(m), written(w), copied(c) {}
  void operator()(const at::Tensor& leaf) override { copied += leaf.grad().defined(); }
  std::optional<Place> place() override { return memory.defined() ? std::optional(Place{memory, written > 0}) : std::nullopt; }
  void arrived(bool whole, std::int64_t) override { written += whole; }
};

TEST(Multiply, WritesWhereGradientsAreGathered) {
  const Shape s{2, 8, 5, 4, 6, 3, 1, 1};
  const auto x = channels_last({2, 8, 5, 4}, at::kDouble), weight = channels_last({6, 8, 3, 3}, at::kDouble).requires_grad_();
  const auto expected = torch::autograd::grad({multiply(x, weight, {}, Sharing::none, windows_of(s)).square().sum()}, {weight})[0];
  auto memory = at::full_like(weight, 17).detach();
  int written = 0, copied = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(weight, std::make_unique<Gathered>(memory, written, copied));
  for (int pass = 1; pass <= 2; ++pass) {
    multiply(x, weight, {}, Sharing::none, windows_of(s)).square().sum().backward();
    EXPECT_LT(largest(memory - expected * pass), 1e-11);
    EXPECT_EQ(written, pass);
    EXPECT_FALSE(weight.grad().defined());
  }
  // A weight that others use too, and one whose gradients are not gathered now, go the usual way.
  multiply(x, weight, {}, Sharing::others, windows_of(s)).square().sum().backward();
  EXPECT_EQ(copied, 1);
  weight.mutable_grad().reset();
  memory = at::Tensor();
  multiply(x, weight, {}, Sharing::none, windows_of(s)).square().sum().backward();
  EXPECT_EQ(copied, 2);
  EXPECT_EQ(written, 2);
  EXPECT_LT(largest(weight.grad() - expected), 1e-11);
}

TEST(Multiply, SaysNoTwice) {
  const auto x = at::randn({3, 5}, at::kDouble), weight = at::randn({4, 5}, at::kDouble).requires_grad_();
  const auto loss = multiply(x, weight, {}, Sharing::none).sum();
  loss.backward();
  EXPECT_THROW(loss.backward(), c10::Error);
  const auto changed = multiply(x, weight, {}, Sharing::none).sum();
  {
    const c10::NoGradGuard guard;
    weight.add_(1);
  }
  EXPECT_THROW(changed.backward(), c10::Error);
}

/// Of GELU, by the error function of fp64.
std::pair<at::Tensor, at::Tensor> exact_gelu(const at::Tensor& x, const at::Tensor& gradient) {
  const auto wide = x.detach().to(at::kDouble).requires_grad_();
  const auto out = at::gelu(wide);
  out.mul(gradient.to(at::kDouble)).sum().backward();
  return {out.detach(), wide.grad()};
}

// Within 4e-7 of fp64, absolutely below 1 and relatively above: ATen's is within 2e-7.
TEST(Gelu, IsTheNormalDistributionTimesItsArgument) {
  GraphBuilder builder("gelu", {1, 8, 4001});
  builder.gelu("gelu", GraphBuilder::kInput);
  Network network(std::move(builder).finish(), {});
  const auto x = at::linspace(-20, 20, 8 * 4001).view({1, 1, 8, 4001}).requires_grad_(), gradient = at::randn({1, 1, 8, 4001}).clamp(-2, 2);
  const auto out = network.forward({x}, true).logits;
  EXPECT_EQ(out.grad_fn()->name().find("GeluBackward0"), std::string::npos) << "ATen's";
  out.mul(gradient).sum().backward();
  const auto [expected, slope] = exact_gelu(x, gradient);
  EXPECT_LT(largest((out - expected) / expected.abs().clamp_min(1)), 4e-7);
  EXPECT_LT(largest((x.grad() - slope) / slope.abs().clamp_min(1)), 8e-7);
  EXPECT_LT(std::abs(out[0][0][0][0].item<float>()), std::numeric_limits<float>::min());
  // What is no number stays none.
  const auto none = at::full({1, 1, 8, 4001}, std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(network.forward({none}, true).logits.isnan().all().item<bool>());
}

// Shapes of the last stages of a ResNet whose images are small, through the network, which picks the product.
TEST(Multiply, IsPickedForConvolutionsOfFewPlaces) {
  const OneThread one;
  GraphBuilder builder("few", {64, 4, 4});
  builder.conv2d("second", builder.conv2d("first", GraphBuilder::kInput, 64, {3, 2, 1}), 64, {1, 2, 0});
  const auto graph = std::move(builder).finish();
  Network fast(graph, {}), torch(graph, {.kernels = Kernels::torch});
  const auto x = channels_last({2, 64, 4, 4}, at::kFloat);
  const auto a = fast.forward({x}, true).logits, b = torch.forward({x.contiguous()}, true).logits;
  EXPECT_EQ(a.grad_fn()->name(), "ProductBackward");
  EXPECT_NE(b.grad_fn()->name(), "ProductBackward");
  EXPECT_LT(largest(a - b), 1e-5 * largest(b));
  a.sum().backward();
  b.sum().backward();
  for (std::size_t i = 0; i < fast.parameters().size(); ++i)
    EXPECT_LT(largest(fast.parameters()[i].grad() - torch.parameters()[i].grad()), 1e-5 * (1 + largest(torch.parameters()[i].grad()))) << i;
}

}  // namespace
}  // namespace ddl
