#include "ddl/nn/network.h"

#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include "ddl/core/spec.h"
#include "ddl/nn/builtin.h"

namespace ddl {
namespace {

Network make(const std::string& name, NetworkOptions options) {
  return Network(builtin_models().at(name).make(parse_spec(name), {1, 28, 28, 10}), options);
}

at::Tensor images(std::int64_t n, at::ScalarType type) {
  return at::arange(n * 28 * 28, type).mul_(0.37).sin_().view({n, 1, 28, 28});
}

TEST(Network, BothKernelsComputeTheSame) {
  for (const auto* name : {"lenet", "resnet18"}) {
    auto fast = make(name, {at::kDouble, at::kCPU, Kernels::fast, 3});
    auto torch = make(name, {at::kDouble, at::kCPU, Kernels::torch, 3});
    const auto x = images(2, at::kDouble);
    const auto a = fast.forward({x}, true).logits, b = torch.forward({x}, true).logits;
    EXPECT_LT((a - b).abs().max().item<double>(), 1e-12) << name;
    a.sum().backward();
    b.sum().backward();
    for (std::size_t i = 0; i < fast.parameters().size(); ++i)
      EXPECT_LT((fast.parameters()[i].grad() - torch.parameters()[i].grad()).abs().max().item<double>(),
                1e-10 * (1 + torch.parameters()[i].grad().abs().max().item<double>()))
          << name << " " << fast.parameter_names()[i];
  }
}

TEST(Network, GradientsEqualFiniteDifferences) {
  auto net = make("lenet", {at::kDouble, at::kCPU, Kernels::fast, 5});
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
  auto net = make("resnet18", {});
  const auto before = net.buffers()[0].clone();
  net.forward({images(4, at::kFloat)}, false);
  EXPECT_TRUE(at::equal(before, net.buffers()[0]));
  net.forward({images(4, at::kFloat)}, true);
  EXPECT_FALSE(at::equal(before, net.buffers()[0]));
}

}  // namespace
}  // namespace ddl
