#include <array>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ddl/nn/graph_builder.h"
#include "ddl/nn/network.h"
#include "ddl/nn/one_thread_testing.h"
#include "ddl/nn/operators/max_pool.h"

// The most of windows against ATen's, bit for bit where no two windows overlap.
namespace ddl {
namespace {

struct Shape {
  std::int64_t samples, channels, height, width;
  Pair kernel, stride, padding;
  bool overlaps() const { return stride.height < kernel.height || stride.width < kernel.width; }
  Attributes attributes() const {
    Attributes a;
    a.kernel = kernel;
    a.stride = stride;
    a.padding = padding;
    return a;
  }
};

/// Windows side by side, with remainders, with gaps, that overlap, over an edge; one channel; channels and columns that fill no block of 64, and more than one.
const std::vector<Shape> kShapes{{2, 8, 6, 6, 2, 2, 0}, {3, 5, 7, 9, 2, 2, 0}, {1, 70, 8, 8, 3, 2, 1}, {2, 1, 28, 28, 2, 2, 0}, {1, 3, 9, 300, 3, 2, 0}, {2, 6, 10, 11, 2, 3, 1}, {1, 64, 13, 13, 3, 2, 0},
                                 {2, 4, 12, 9, {3, 2}, {1, 2}, {1, 0}}, {1, 130, 5, 5, 5, 5, 2}, {2, 7, 6, 131, 2, 2, 1}, {1, 2, 1, 1, 1, 1, 0}};

struct Pass {
  at::Tensor out, gradient;
};

Pass pass(const at::Tensor& maps, const at::Tensor& from_above, const std::function<at::Tensor(const at::Tensor&)>& pool) {
  const auto x = maps.detach().clone().requires_grad_();
  const auto out = pool(x);
  out.mul(from_above.to(out.scalar_type())).sum().backward();
  return {out.detach(), x.grad()};
}

std::array<std::int64_t, 2> both(const Pair& pair) { return {pair.height, pair.width}; }

class MaxPool : public testing::TestWithParam<at::MemoryFormat> {};

TEST_P(MaxPool, IsAtens) {
  at::manual_seed(3);
  for (const auto& s : kShapes)
    for (const auto type : {at::kFloat, at::kDouble})
      for (const bool rectifies : {false, true}) {
        const auto maps = at::randn({s.samples, s.channels, s.height, s.width}, at::kDouble).to(type).contiguous(GetParam());
        const auto atens = [&](const at::Tensor& x) { return at::max_pool2d(rectifies ? at::relu(x) : x, both(s.kernel), both(s.stride), both(s.padding)); };
        const auto above = at::randn_like(atens(maps), at::kDouble);
        const auto expected = pass(maps, above, atens), got = pass(maps, above, [&](const at::Tensor& x) { return most_of_windows(s.attributes(), x, s.padding, rectifies); });
        const auto label = fmt::format("{}x{}x{}x{}, windows of {}x{}", s.samples, s.channels, s.height, s.width, s.kernel.height, s.kernel.width);
        EXPECT_TRUE(got.out.equal(expected.out)) << label;
        EXPECT_TRUE(got.out.is_contiguous(maps.is_contiguous() ? at::MemoryFormat::Contiguous : GetParam())) << label;
        if (s.overlaps())
          EXPECT_LE((got.gradient - expected.gradient).abs().max().item<double>(), (type == at::kFloat ? 1e-6 : 1e-15) * above.abs().max().item<double>()) << label;
        else
          EXPECT_TRUE(got.gradient.equal(expected.gradient)) << label;
      }
}

/// Zeros, of which a ReLU makes many, and numbers that are none.
TEST_P(MaxPool, TiesAndNumbersThatAreNone) {
  const Shape s{1, 2, 4, 4, 2, 2, 0};
  auto maps = at::zeros({1, 2, 4, 4}).contiguous(GetParam());
  maps[0][0][0][1] = std::numeric_limits<double>::quiet_NaN();
  maps[0][0][3][3] = -1;
  maps[0][1][0][0] = std::numeric_limits<double>::infinity();
  const auto above = at::ones({1, 2, 2, 2});
  for (const bool rectifies : {false, true}) {
    const auto atens = [&](const at::Tensor& x) { return at::max_pool2d(rectifies ? at::relu(x) : x, {2, 2}, {2, 2}); };
    const auto expected = pass(maps, above, atens), got = pass(maps, above, [&](const at::Tensor& x) { return most_of_windows(s.attributes(), x, s.padding, rectifies); });
    EXPECT_TRUE(got.out.isnan().equal(expected.out.isnan()));
    EXPECT_TRUE(got.out.nan_to_num(7).equal(expected.out.nan_to_num(7)));
    EXPECT_TRUE(got.gradient.equal(expected.gradient)) << got.gradient << expected.gradient;
  }
}

/// The first place of a window that is on the map has the gradient, not one beyond its edge.
TEST_P(MaxPool, OfNothingButMinusInfinity) {
  const Shape s{1, 3, 5, 5, 3, 2, 1};
  const auto maps = at::full({1, 3, 5, 5}, -std::numeric_limits<float>::infinity()).contiguous(GetParam());
  const auto above = at::randn({1, 3, 3, 3});
  const auto expected = pass(maps, above, [](const at::Tensor& x) { return at::max_pool2d(x, {3, 3}, {2, 2}, {1, 1}); });
  const auto got = pass(maps, above, [&](const at::Tensor& x) { return most_of_windows(s.attributes(), x, s.padding, false); });
  EXPECT_TRUE(got.out.equal(expected.out));
  EXPECT_NEAR(got.gradient.sum().item<double>(), above.sum().item<double>(), 1e-5);
  EXPECT_LE((got.gradient - expected.gradient).abs().max().item<double>(), 1e-6) << got.gradient << expected.gradient;
}

TEST_P(MaxPool, KeepsAByteOfEachElement) {
  const Shape s{2, 8, 16, 16, 2, 2, 0};
  const auto maps = at::randn({2, 8, 16, 16}).contiguous(GetParam()).requires_grad_();
  const auto accumulator = torch::autograd::impl::grad_accumulator(maps);
  const auto before = maps.use_count();
  const auto out = most_of_windows(s.attributes(), maps, s.padding, true);
  EXPECT_EQ(maps.use_count(), before) << "the maps are not kept";
  EXPECT_TRUE(out.requires_grad());
  EXPECT_FALSE(most_of_windows(s.attributes(), maps.detach(), s.padding, true).requires_grad());
}

INSTANTIATE_TEST_SUITE_P(, MaxPool, testing::Values(at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast),
                         [](const auto& of) { return of.param == at::MemoryFormat::Contiguous ? "Planes" : "ChannelsLast"; });

TEST(RectifyAndPool, GoTogetherWhereNobodyElseReadsTheFirst) {
  const OneThread one;
  for (const bool alone : {true, false}) {
    GraphBuilder net("pools", std::vector<std::int64_t>{3, 12, 12});
    const int x = net.relu("relu", net.conv2d("conv", GraphBuilder::kInput, 64, {3, 1, 1}));
    const int pooled = net.max_pool2d("pool", x, {2, 2, 0});
    net.linear("last", net.flatten("flat", alone ? pooled : net.concatenate("all", {pooled, net.max_pool2d("other", x, {2, 2, 0})})), 4);
    const auto graph = std::move(net).finish();
    std::vector<at::Tensor> logits, gradients;
    for (const auto kernels : {Kernels::torch, Kernels::fast}) {
      Network network(graph, {.type = at::kDouble, .kernels = kernels, .seed = 5});
      at::manual_seed(9);
      NetworkInput input{.images = at::randn({3, 3, 12, 12}, at::kDouble).contiguous(network.memory_format())};
      std::vector<at::Tensor> values(graph.layers.size());
      std::vector<std::size_t> ends;
      for (std::size_t at = 0; at < values.size(); ends.push_back(at)) at = network.forward_next(at, values.size(), values, input, true);
      // The ReLU goes with the pool; where others read it, too, with the convolution.
      EXPECT_EQ(ends.size(), graph.layers.size() - (kernels == Kernels::fast ? 1 : 0)) << alone;
      logits.push_back(values.back().detach());
      values.back().square().sum().backward();
      gradients.push_back(network.parameters()[0].grad().contiguous());
    }
    EXPECT_LE((logits[0] - logits[1]).abs().max().item<double>(), 1e-12);
    EXPECT_LE((gradients[0] - gradients[1]).abs().max().item<double>(), 1e-11);
  }
}

}  // namespace
}  // namespace ddl
