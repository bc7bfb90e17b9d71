#include "ddl/train/recompute.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ddl/nn/builtin.h"
#include "ddl/train/allocator.h"
#include "ddl/train/autocast.h"

namespace ddl {
namespace {

constexpr std::int64_t kSamples = 8;

struct Result {
  std::vector<at::Tensor> gradients, statistics;
  at::Tensor logits;
  std::int64_t peak = 0;  ///< bytes beyond what was held before
};

Result run(const std::string& model, bool recompute, at::ScalarType type, const std::string& precision, std::int64_t samples = kSamples) {
  Network network(builtin_models().at(model).make({model, {}}, {1, 28, 28, 10}), {type, at::kCPU, Kernels::fast, 5});
  NetworkInput input;
  input.images = at::linspace(-1, 1, samples * 784, type).sin().reshape({samples, 1, 28, 28}).to(type, false, false, network.memory_format());
  Result result;
  reset_allocator_peak();
  const auto before = allocator_use().current;
  {
    NetworkOutput output;
    if (recompute) {
      output = forward_with_recompute(network, recompute_cuts(network), input, precision);
    } else {
      const Autocast autocast(at::kCPU, precision);
      output = network.forward(input, true);
    }
    result.logits = output.logits.detach().clone();
    torch::autograd::backward({output.logits.to(at::kDouble).pow(2).sum()}, {});
  }
  result.peak = allocator_use().peak - before;
  for (const auto& parameter : network.parameters()) result.gradients.push_back(parameter.grad());
  result.statistics = network.buffers();
  return result;
}

// Every network, with batch norm (whose statistics must be updated once) and without.
TEST(Recompute, GivesTheSameBitsAsPlainForwardAndBackward) {
  for (const auto& model : builtin_models().names())
    for (const auto& [type, precision] : {std::pair{at::kFloat, "fp32"}, {at::kDouble, "fp64"}, {at::kFloat, "bf16"}}) {
      const auto plain = run(model, false, type, precision), again = run(model, true, type, precision);
      EXPECT_TRUE(at::equal(plain.logits, again.logits)) << model << " " << precision;
      ASSERT_EQ(plain.gradients.size(), again.gradients.size());
      for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
        ASSERT_TRUE(again.gradients[i].defined()) << model << " " << precision << " " << i;
        EXPECT_TRUE(at::equal(plain.gradients[i], again.gradients[i])) << model << " " << precision << " " << i;
      }
      for (std::size_t i = 0; i < plain.statistics.size(); ++i)
        EXPECT_TRUE(at::equal(plain.statistics[i], again.statistics[i])) << model << " " << precision << " " << i;
    }
}

TEST(Recompute, HoldsLess) {
  install_allocator(false);
  const auto plain = run("resnet18", false, at::kFloat, "fp32", 32).peak, again = run("resnet18", true, at::kFloat, "fp32", 32).peak;
  // Gradients, 45 MB, are held either way.
  EXPECT_LT(again, plain * 3 / 4) << plain << " without";
}

TEST(Recompute, CutsCoverTheNetworkInOrder) {
  for (const auto& entry : builtin_models().entries()) {
    const Network network(entry.make({entry.name, {}}, {1, 28, 28, 10}), {});
    const auto cuts = recompute_cuts(network);
    EXPECT_EQ(cuts.front(), 0U) << entry.name;
    EXPECT_EQ(cuts.back(), network.graph().layers.size()) << entry.name;
    for (std::size_t i = 1; i < cuts.size(); ++i) EXPECT_LT(cuts[i - 1], cuts[i]) << entry.name;
    if (entry.name == "resnet18") {
      EXPECT_GE(cuts.size(), 5U);
    }
  }
}

}  // namespace
}  // namespace ddl
