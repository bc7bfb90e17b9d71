#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include "ddl/nn/graph_builder.h"
#include "ddl/nn/network.h"
#include "ddl/nn/one_thread_testing.h"
#include "ddl/nn/operators/winograd.h"
#include "ddl/nn/tensors_testing.h"

// Convolutions by tiles against ATen's in fp64.
namespace ddl {
namespace {

struct Shape {
  std::int64_t samples, in, out, height, width, padding;

  Windows windows() const { return {samples, height, width, in, 3, 3, 1, 1, padding, padding, height + 2 * padding - 2, width + 2 * padding - 2}; }
};

/// Odd and even sizes, tiles that reach over an edge, one tile, channels that fill no block of 64, several blocks of tiles.
const std::vector<Shape> kShapes{{2, 8, 6, 6, 4, 1}, {1, 64, 64, 7, 5, 1}, {3, 70, 33, 4, 4, 0}, {1, 5, 130, 3, 3, 0}, {2, 16, 3, 1, 1, 1}, {2, 4, 7, 5, 6, 2}, {1, 3, 8, 41, 38, 1}, {5, 32, 48, 14, 14, 1}, {1, 256, 128, 9, 8, 1}};

struct Pass {
  at::Tensor x, weight, bias, out;
  std::vector<std::pair<const char*, at::Tensor>> all() const { return {{"output", out.detach()}, {"gradient of maps", x.grad()}, {"of weights", weight.grad()}, {"of biases", bias.grad()}}; }
};

template <typename F>
Pass pass(const Pass& of, at::ScalarType type, const at::Tensor& gradient, F&& convolve) {
  const auto copy = [&](const at::Tensor& each) { return each.detach().to(type).clone().requires_grad_(); };
  Pass run{copy(of.x), copy(of.weight), copy(of.bias), {}};
  run.out = convolve(run.x, run.weight, run.bias);
  run.out.mul(gradient.to(type)).sum().backward();
  return run;
}

// In fp64 all digits but the last few. In fp32, of the largest element, 2e-6; or four times as far off as ATen's own where that is more.
TEST(ConvolveByTiles, IsAConvolution) {
  at::manual_seed(7);
  for (const auto& s : kShapes) {
    const auto windows = s.windows();
    const Pass given{channels_last({s.samples, s.in, s.height, s.width}, at::kDouble), channels_last({s.out, s.in, 3, 3}, at::kDouble), at::randn({s.out}, at::kDouble), {}};
    const auto gradient = channels_last({s.samples, s.out, windows.places_high, windows.places_wide}, at::kDouble);
    const auto ours = [&](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) { return convolve_by_tiles(x, w, b, Sharing::none, windows); };
    const auto atens = [&](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) { return at::conv2d(x, w, b, 1, s.padding); };
    const auto exact = pass(given, at::kDouble, gradient, atens), wide = pass(given, at::kDouble, gradient, ours), narrow = pass(given, at::kFloat, gradient, ours), plain = pass(given, at::kFloat, gradient, atens);
    ASSERT_EQ(wide.out.sizes(), exact.out.sizes());
    EXPECT_TRUE(wide.out.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_EQ(wide.weight.grad().strides(), wide.weight.strides());
    const auto all = exact.all(), in_fp64 = wide.all(), in_fp32 = narrow.all(), of_aten = plain.all();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& [of, expected] = all[i];
      const auto label = fmt::format("{} of {}x{}x{}x{} to {} channels, padding {}", of, s.samples, s.in, s.height, s.width, s.out, s.padding);
      EXPECT_LT(largest(in_fp64[i].second - expected), 1e-13 * (1 + largest(expected))) << label;
      EXPECT_LT(largest(in_fp32[i].second - expected), std::max(2e-6 * (1 + largest(expected)), 4 * largest(of_aten[i].second - expected))) << label;
    }
  }
}

TEST(ConvolveByTiles, AddsToTheGradientThatIsThere) {
  const Shape s{2, 8, 6, 6, 5, 1};
  const auto x = channels_last({2, 8, 6, 5}, at::kDouble), weight = channels_last({6, 8, 3, 3}, at::kDouble).requires_grad_();
  const auto run = [&] { return convolve_by_tiles(x, weight, {}, Sharing::none, s.windows()).square().sum(); };
  run().backward();
  const auto once = weight.grad().clone();
  const auto* const memory = weight.grad().const_data_ptr();
  run().backward();
  EXPECT_LT(largest(weight.grad() - once * 2), 1e-11);
  EXPECT_EQ(weight.grad().const_data_ptr(), memory);
  // Who asks for a gradient gets it, and what is there stays.
  EXPECT_LT(largest(torch::autograd::grad({run()}, {weight})[0] - once), 1e-11);
  EXPECT_LT(largest(weight.grad() - once * 2), 1e-11);
}

TEST(ConvolveByTiles, SaysNoTwice) {
  const Shape s{1, 4, 4, 4, 4, 1};
  const auto x = channels_last({1, 4, 4, 4}, at::kFloat), weight = channels_last({4, 4, 3, 3}, at::kFloat).requires_grad_();
  const auto loss = convolve_by_tiles(x, weight, {}, Sharing::none, s.windows()).sum();
  loss.backward();
  EXPECT_THROW(loss.backward(), c10::Error);
  const auto changed = convolve_by_tiles(x, weight, {}, Sharing::none, s.windows()).sum();
  {
    const c10::NoGradGuard guard;
    weight.add_(1);
  }
  EXPECT_THROW(changed.backward(), c10::Error);
}

// A replica that has computed other batches before gives the same bits.
TEST(ConvolveByTiles, RepeatsItsBits) {
  const Shape s{3, 32, 48, 15, 14, 1};
  const auto x = channels_last({3, 32, 15, 14}, at::kFloat), weight = channels_last({48, 32, 3, 3}, at::kFloat).requires_grad_();
  const auto run = [&] {
    weight.mutable_grad().reset();
    const auto out = convolve_by_tiles(x, weight, {}, Sharing::none, s.windows());
    out.square().sum().backward();
    return std::pair(out.detach(), weight.grad());
  };
  const auto first = run();
  at::full({1 << 20}, 1e30);
  const auto second = run();
  EXPECT_TRUE(at::equal(first.first, second.first));
  EXPECT_TRUE(at::equal(first.second, second.second));
}

ModelGraph two_convolutions() {
  GraphBuilder builder("two", {64, 24, 24});
  builder.conv2d("second", builder.conv2d("first", GraphBuilder::kInput, 64, {3, 1, 1}), 64, {3, 2, 1});
  return std::move(builder).finish();
}

TEST(ConvolveByTiles, IsPickedForStrideOne) {
  const OneThread one;
  Network fast(two_convolutions(), {}), torch(two_convolutions(), {.kernels = Kernels::torch});
  const auto x = channels_last({2, 64, 24, 24}, at::kFloat);
  std::vector<at::Tensor> values(3);
  const auto name_of_first = [&](Network& network) {
    values[0] = network.forward_layer(0, values, {x}, true);
    return network.forward_layer(1, values, {x}, true).grad_fn()->name();
  };
  EXPECT_EQ(name_of_first(fast), "WinogradBackward");
  EXPECT_EQ(name_of_first(torch), "ConvolutionBackward0");
  const auto a = fast.forward({x}, true).logits, b = torch.forward({x}, true).logits;
  EXPECT_NE(a.grad_fn()->name(), "WinogradBackward") << "stride 2";
  EXPECT_LT(largest(a - b), 1e-5 * largest(b));
  a.sum().backward();
  b.sum().backward();
  for (std::size_t i = 0; i < fast.parameters().size(); ++i)
    EXPECT_LT(largest(fast.parameters()[i].grad() - torch.parameters()[i].grad()), 1e-5 * (1 + largest(torch.parameters()[i].grad()))) << i;
}

}  // namespace
}  // namespace ddl
