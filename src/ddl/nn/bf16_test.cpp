#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ddl/nn/element_type.h"
#include "ddl/nn/kernels/gelu.h"
#include "ddl/nn/kernels/windows.h"
#include "ddl/nn/multiplier.h"
#include "ddl/nn/one_thread_testing.h"
#include "ddl/nn/operators/attention.h"
#include "ddl/nn/operators/batch_norm.h"
#include "ddl/nn/operators/cross_entropy.h"
#include "ddl/nn/operators/depthwise.h"
#include "ddl/nn/operators/max_pool.h"
#include "ddl/nn/operators/product.h"
#include "ddl/nn/operators/wide_convolution.h"
#include "ddl/nn/operators/winograd.h"
#include "ddl/nn/tensors_testing.h"

// Operators on values of bf16, with parameters of fp32, against fp64 of the same numbers, and against ATen's in bf16.
namespace ddl {
namespace {

constexpr double kRounding = 1.0 / 256;  // a number is rounded by at most that part of it

at::Tensor wide(const at::Tensor& tensor) { return tensor.detach().to(at::kDouble); }

at::Tensor channels_last(at::IntArrayRef sizes) { return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast); }

TEST(Bf16, IsAtens) {
  at::manual_seed(1);
  auto values = at::randn({100000}).mul(at::pow(at::full({}, 10.0), at::randint(-44, 38, {100000})));
  // Ties both ways, the largest numbers, numbers that are none, and the smallest.
  const std::vector<float> special{1.00390625F, 1.01171875F, -1.00390625F, 3.39e38F, std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                                   std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::denorm_min(), 0.0F, -0.0F};
  values = at::cat({values, at::tensor(special)});
  const auto rounded = values.to(at::kBFloat16);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    const float value = values.const_data_ptr<float>()[i];
    const Bf16 ours = value, atens = elements<Bf16>(rounded)[i];
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(static_cast<float>(ours)));
    else
      EXPECT_EQ(ours.bits, atens.bits) << value;
  }
}

struct Pass {
  std::vector<at::Tensor> leaves;
  at::Tensor out;
  std::vector<at::Tensor> all() const {
    std::vector<at::Tensor> found{wide(out)};
    for (const auto& leaf : leaves) found.push_back(wide(leaf.grad()));
    return found;
  }
};

using Operation = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// `values` are the leaves that are of bf16; the others are parameters.
Pass pass(const std::vector<at::Tensor>& leaves, std::size_t values, bool exact, const at::Tensor& gradient, const Operation& operation) {
  Pass run;
  for (std::size_t i = 0; i < leaves.size(); ++i) run.leaves.push_back(leaves[i].detach().to(exact ? at::kDouble : i < values ? at::kBFloat16 : at::kFloat).clone().requires_grad_());
  run.out = operation(run.leaves);
  torch::autograd::backward({run.out}, {gradient.to(run.out.scalar_type())});
  return run;
}

/// Each result within `times` what ATen's in bf16 is off, or within that many roundings of the largest element where that is more. Leaves hold numbers of bf16, so that all start from the same.
void compare(std::vector<at::Tensor> leaves, std::size_t values, double times, const Operation& ours, const Operation& atens, const std::string& what) {
  for (auto& leaf : leaves) leaf = leaf.to(at::kBFloat16).to(at::kFloat);
  const auto first = [&] {
    std::vector<at::Tensor> plain;
    for (const auto& leaf : leaves) plain.push_back(leaf.to(at::kDouble));
    return atens(plain);
  }();
  const auto gradient = at::randn_like(first).to(at::kBFloat16);
  const auto exact = pass(leaves, values, true, gradient, atens), own = pass(leaves, values, false, gradient, ours), plain = pass(leaves, values, false, gradient, atens);
  EXPECT_EQ(own.out.scalar_type(), at::kBFloat16) << what;
  const auto expected = exact.all(), got = own.all(), of_aten = plain.all();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), expected[i].sizes()) << what;
    EXPECT_LE(largest(got[i] - expected[i]), times * std::max(largest(of_aten[i] - expected[i]), kRounding * largest(expected[i]))) << what << ", " << (i == 0 ? "output" : "gradient ") << i;
  }
  for (std::size_t i = values; i < own.leaves.size(); ++i) EXPECT_EQ(own.leaves[i].grad().scalar_type(), at::kFloat) << what;
}

/// As under autocast: ATen's operators take one type.
at::Tensor like(const at::Tensor& parameter, const at::Tensor& value) { return parameter.to(value.scalar_type()); }

TEST(InBf16, ConvolutionsByTilesAreFourTimesAsFarOffAtMost) {
  const OneThread one;
  at::manual_seed(5);
  for (const auto& [samples, in, out, height, width, padding] : std::vector<std::array<std::int64_t, 6>>{{2, 8, 6, 6, 4, 1}, {1, 64, 64, 7, 5, 1}, {3, 70, 33, 4, 4, 0}, {5, 32, 48, 14, 14, 1}, {1, 256, 128, 9, 8, 1}, {8, 64, 64, 32, 32, 1}}) {
    const Windows windows{samples, height, width, in, 3, 3, 1, 1, padding, padding, height + 2 * padding - 2, width + 2 * padding - 2};
    compare({channels_last({samples, in, height, width}), channels_last({out, in, 3, 3}), at::randn({out})}, 1, 4,
            [&, w = windows](const auto& x) { return convolve_by_tiles(x[0], x[1], x[2], Sharing::none, w); },
            [&, around = padding](const auto& x) { return at::conv2d(x[0], like(x[1], x[0]), like(x[2], x[0]), 1, around); }, fmt::format("{}x{}x{}x{} to {}", samples, in, height, width, out));
  }
}

TEST(InBf16, ProductsAreAtens) {
  const OneThread one;
  at::manual_seed(6);
  compare({at::randn({3, 20, 70}), at::randn({33, 70}), at::randn({33})}, 1, 1, [](const auto& x) { return multiply(x[0], x[1], x[2], Sharing::none); },
          [](const auto& x) { return at::linear(x[0], like(x[1], x[0]), like(x[2], x[0])); }, "linear");
  const Windows windows{2, 7, 6, 40, 3, 3, 2, 2, 1, 1, 4, 3};
  compare({channels_last({2, 40, 7, 6}), channels_last({24, 40, 3, 3})}, 1, 1, [&](const auto& x) { return multiply(x[0], x[1], {}, Sharing::none, windows); },
          [](const auto& x) { return at::conv2d(x[0], like(x[1], x[0]), {}, 2, 1); }, "convolution");
}

// Strides and windows that leave places out, of as many groups as channels and of fewer.
TEST(InBf16, GroupsApartAreNoFurtherOffThanAtens) {
  at::manual_seed(16);
  for (const auto& [channels, groups, kernel, stride_high, stride_wide, height, width] : std::vector<std::array<std::int64_t, 7>>{{24, 24, 3, 2, 2, 14, 14}, {24, 24, 3, 2, 1, 7, 9}, {32, 32, 5, 3, 2, 11, 8}, {12, 4, 3, 2, 2, 8, 8}}) {
    Attributes of;
    of.groups = groups;
    of.stride = {stride_high, stride_wide};
    const std::array<std::int64_t, 2> padding{kernel / 2, kernel / 2}, stride{stride_high, stride_wide};
    const auto of_groups = groups;
    compare({channels_last({3, channels, height, width}), channels_last({channels, channels / groups, kernel, kernel}), at::randn({channels})}, 1, 1,
            [&](const auto& x) { return convolve_groups_apart(x[0], x[1], x[2], of, padding); },
            [&](const auto& x) { return at::conv2d(x[0], like(x[1], x[0]), like(x[2], x[0]), stride, padding, 1, of_groups); }, fmt::format("{} channels in {} groups", channels, groups));
  }
}

// Of any window and groups, and of maps that lie plane by plane, too.
TEST(InBf16, WideConvolutionsAreNoFurtherOffThanAtens) {
  at::manual_seed(17);
  for (const auto& [channels, groups, kernel, stride, side] : std::vector<std::array<std::int64_t, 5>>{{24, 24, 3, 1, 9}, {24, 24, 3, 2, 9}, {16, 1, 1, 1, 7}, {16, 1, 1, 2, 7}, {3, 1, 7, 2, 15}, {12, 4, 3, 1, 8}})
    for (const bool by_channels : {true, false}) {
      Attributes of;
      of.groups = groups;
      of.stride = {stride, stride};
      const std::array<std::int64_t, 2> padding{kernel / 2, kernel / 2}, strides{stride, stride};
      const auto of_groups = groups;
      const auto lie = [&](std::vector<std::int64_t> sizes) { return by_channels ? channels_last(sizes) : at::randn(sizes); };
      compare({lie({3, channels, side, side}), lie({2 * channels, channels / groups, kernel, kernel}), at::randn({2 * channels})}, 1, 1,
              [&](const auto& x) { return convolve_widely(x[0], x[1], x[2], of, padding); },
              [&](const auto& x) { return at::conv2d(x[0], like(x[1], x[0]), like(x[2], x[0]), strides, padding, 1, of_groups); }, fmt::format("{} channels in {} groups, {}x{}", channels, groups, kernel, kernel));
    }
}

// All of it, so that the ways that are no products are those that take such a processor a multiple of their time in fp32.
TEST(InBf16, ConvolutionsAreWideWhereTheProcessorIsNotNarrow) {
  const NetworkOptions fast{.kernels = Kernels::fast}, plain{.kernels = Kernels::torch};
  const auto maps = at::randn({1, 2, 3, 3});
  EXPECT_EQ(takes_wide_convolution(maps.to(at::kBFloat16), fast), !multiplies_bf16());
  EXPECT_FALSE(takes_wide_convolution(maps, fast));
  EXPECT_FALSE(takes_wide_convolution(maps.to(at::kBFloat16), plain));
}

TEST(InBf16, ProductsAddToGradientsOfFp32) {
  const OneThread one;
  const auto x = at::randn({6, 10}).to(at::kBFloat16), weight = at::randn({4, 10}).requires_grad_();
  multiply(x, weight, {}, Sharing::none).sum().backward();
  const auto once = weight.grad().clone();
  const auto* const memory = weight.grad().const_data_ptr();
  multiply(x, weight, {}, Sharing::none).sum().backward();
  EXPECT_TRUE(at::equal(weight.grad(), once * 2));
  EXPECT_EQ(weight.grad().const_data_ptr(), memory);
}

/// Into fp32 and into bf16, added and not, as the processor does it and in fp32.
TEST(InBf16, MultiplyIntoEitherType) {
  const OneThread one;
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto left = at::randn({2, 30, 20}).to(at::kBFloat16), right = at::randn({2, 20, 17}).to(at::kBFloat16);
  const auto product = wide(left).matmul(wide(right));
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const bool adds : {false, true})
      for (const bool parts : {false, true}) {
        auto to = at::ones({2, 30, 34}, type).narrow(2, 0, 17);
        if (!parts) to = to.contiguous();
        multiply_into(to, left, right, adds);
        EXPECT_LE(largest(wide(to) - product - (adds ? 1 : 0)), 2 * kRounding * largest(product)) << type << adds << parts;
      }
}

TEST(InBf16, BatchNormWithWhatFollows) {
  const OneThread one;
  at::manual_seed(7);
  for (const bool adds : {false, true})
    for (const bool activates : {false, true}) {
      Layer layer{.name = "norm", .kind = LayerKind::batch_norm2d}, relu{.name = "relu", .kind = LayerKind::relu};
      const auto statistics = [](at::ScalarType type) { return std::vector<at::Tensor>{at::zeros({70}, type), at::ones({70}, type)}; };
      std::vector<at::Tensor> moved;
      std::vector<at::Tensor> leaves{channels_last({3, 70, 9, 8}).mul(3).add(2)};
      if (adds) leaves.push_back(channels_last({3, 70, 9, 8}));
      leaves.insert(leaves.end(), {at::rand({70}).add(0.5), at::randn({70})});
      compare(leaves, adds ? 2 : 1, 2,
              [&](const auto& x) {
                NormaliseChain chain;
                if (adds) chain.added = x[1], ++chain.layers;
                if (activates) chain.activation = &relu, ++chain.layers;
                LayerTensors own{.parameters = {x[x.size() - 2], x.back()}, .statistics = statistics(at::kFloat)};
                EXPECT_TRUE(takes_batch_norm(layer, x[0], {}));
                const auto out = normalise_and(chain, layer, own, x[0]);
                moved = own.statistics;
                return out;
              },
              [&](const auto& x) {
                const bool exact = x[0].scalar_type() == at::kDouble;
                const auto own = statistics(exact ? at::kDouble : at::kFloat);
                auto out = at::batch_norm(x[0], x[x.size() - 2], x.back(), own[0], own[1], true, layer.attributes.momentum, layer.attributes.epsilon, false);
                if (adds) out = out.add(x[1]);
                return activates ? out.relu() : out;
              },
              fmt::format("adds {}, activates {}", adds, activates));
      ASSERT_EQ(moved.size(), 2U);
      EXPECT_EQ(moved[0].scalar_type(), at::kFloat);
      EXPECT_GT(largest(moved[0]), 0);
    }
}

TEST(InBf16, MaxPoolsHaveAtensBits) {
  const OneThread one;
  at::manual_seed(8);
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
    for (const auto& [kernel, stride, padding] : std::vector<std::array<std::int64_t, 3>>{{2, 2, 0}, {3, 3, 1}, {3, 2, 1}, {2, 3, 0}})
      for (const bool rectifies : {false, true}) {
        Attributes a;
        a.kernel = {kernel, kernel}, a.stride = {stride, stride}, a.padding = {padding, padding};
        const auto maps = at::randn({2, 70, 19, 18}).to(at::kBFloat16).contiguous(format);
        ASSERT_TRUE(takes_max_pool(a, maps, {}));
        const auto run = [&](const std::function<at::Tensor(const at::Tensor&)>& pool, at::ScalarType type) {
          const auto x = maps.to(type).detach().clone().requires_grad_();
          const auto out = pool(x);
          at::manual_seed(4);
          torch::autograd::backward({out}, {at::randn(out.sizes()).to(at::kBFloat16).to(type).contiguous(format)});
          return std::pair(out.detach(), x.grad());
        };
        const auto around = padding, step = stride, side = kernel;
        const auto atens = [&](const at::Tensor& x) { return at::max_pool2d(rectifies ? at::relu(x) : x, {side, side}, {step, step}, {around, around}); };
        const auto got = run([&](const at::Tensor& x) { return most_of_windows(a, x, a.padding, rectifies); }, at::kBFloat16), exact = run(atens, at::kDouble);
        EXPECT_TRUE(at::equal(wide(got.first), exact.first));
        // Where windows overlap, sums are rounded after each of at most four.
        EXPECT_LE(largest(wide(got.second) - exact.second), stride < kernel ? 2 * kRounding * largest(exact.second) : 0) << kernel << stride << padding << rectifies;
      }
}

TEST(InBf16, FoldsInFp32) {
  const Windows windows{2, 6, 5, 33, 3, 3, 1, 1, 1, 1, 6, 5};
  const auto seen = at::randn({windows.places(), windows.seen()}).to(at::kBFloat16), exact = seen.to(at::kDouble);
  const auto got = at::empty({2, 6, 5, 33}, at::kBFloat16), expected = at::empty({2, 6, 5, 33}, at::kDouble);
  fold_windows(windows, elements<Bf16>(seen), places<Bf16>(got));
  fold_windows(windows, exact.const_data_ptr<double>(), expected.data_ptr<double>());
  EXPECT_LE(((wide(got) - expected).abs() - 1.0001 * kRounding * expected.abs()).max().item<double>(), 1e-6) << "one rounding";
}

TEST(InBf16, GeluIsRoundedOnce) {
  const auto x = at::linspace(-6, 6, 5000).to(at::kBFloat16), gradient = at::randn({5000}).to(at::kBFloat16);
  const auto out = at::empty_like(x), slope = at::empty_like(x);
  gelu_elements(elements<Bf16>(x), places<Bf16>(out), x.numel());
  gelu_gradient(elements<Bf16>(x), elements<Bf16>(gradient), places<Bf16>(slope), x.numel());
  const auto leaf = wide(x).requires_grad_();
  const auto expected = at::gelu(leaf);
  expected.mul(wide(gradient)).sum().backward();
  EXPECT_LE(((wide(out) - expected).abs() - 1.0001 * kRounding * expected.abs()).max().item<double>(), 1e-6);
  EXPECT_LE(((wide(slope) - leaf.grad()).abs() - 1.0001 * kRounding * leaf.grad().abs()).max().item<double>(), 1e-6);
}

TEST(InBf16, CrossEntropyIsComputedInFp32) {
  at::manual_seed(9);
  for (const double smoothing : {0.0, 0.1}) {
    const auto logits = at::randn({7, 2500}).mul(4).to(at::kBFloat16).requires_grad_(), labels = at::randint(0, 2500, {7}, at::kLong);
    labels[3] = 0;
    const auto loss = fast_cross_entropy(logits, labels, 0, smoothing);
    loss.backward();
    const auto exact = wide(logits).requires_grad_();
    const auto expected = at::cross_entropy_loss(exact, labels, {}, at::Reduction::Sum, 0, smoothing);
    expected.backward();
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5 * expected.item<double>());
    EXPECT_EQ(logits.grad().scalar_type(), at::kBFloat16);
    EXPECT_LE(((wide(logits.grad()) - exact.grad()).abs() - 1.0001 * kRounding * exact.grad().abs()).max().item<double>(), 1e-6);
    EXPECT_EQ(largest(logits.grad()[3]), 0);
  }
}

TEST(InBf16, AttentionIsNearerThanAtens) {
  const OneThread one;
  at::manual_seed(10);
  const auto heads = [](const at::Tensor& from, std::int64_t part) { return from.narrow(2, part * 32, 32).unflatten(2, {4, 8}).transpose(1, 2); };
  for (const bool causal : {false, true}) {
    ASSERT_TRUE(attends_by_blocks({at::randn({2, 70, 96}).to(at::kBFloat16), at::randn({2, 70, 96}).to(at::kBFloat16), 4, 32, causal, {}}, {}));
    compare({at::randn({2, 70, 96})}, 1, 1.01, [&](const auto& x) { return attend_by_blocks({x[0], x[0], 4, 32, causal, {}}); },
            [&](const auto& x) { return at::scaled_dot_product_attention(heads(x[0], 0), heads(x[0], 1), heads(x[0], 2), {}, 0, causal).transpose(1, 2).flatten(2); }, causal ? "causal" : "all");
  }
  compare({at::randn({2, 9, 32}), at::randn({2, 70, 64})}, 2, 1.01, [&](const auto& x) { return attend_by_blocks({x[0], x[1], 4, 32, false, {}}); },
          [&](const auto& x) { return at::scaled_dot_product_attention(heads(x[0], 0), heads(x[1], 0), heads(x[1], 1)).transpose(1, 2).flatten(2); }, "of others");
}

}  // namespace
}  // namespace ddl
