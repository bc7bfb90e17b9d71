#include "ddl/train/recompute.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ddl/core/spec.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/network_testing.h"
#include "ddl/train/allocator.h"
#include "ddl/train/autocast.h"

namespace ddl {
namespace {

constexpr std::int64_t kSamples = 2;

struct Result {
  std::vector<at::Tensor> gradients, statistics;
  at::Tensor logits, auxiliary;
  std::int64_t peak = 0;  ///< bytes beyond what was held before
};

Result run(const Trial& trial, bool recompute, at::ScalarType type, const std::string& precision, std::int64_t samples = kSamples) {
  const auto spec = parse_spec(trial.spec);
  Network network(builtin_models().at(spec.name).make(spec, trial.shape), {type, at::kCPU, Kernels::fast, 5});
  auto input = made_up_samples(samples, trial.shape, type).input;
  if (input.images.defined()) input.images = input.images.contiguous(network.memory_format());
  Result result;
  reset_allocator_peak();
  const auto before = allocator_use().current;
  {
    NetworkOutput output;
    if (recompute) {
      output = forward_with_recompute(network, recompute_cuts(network.graph()), input, precision);
    } else {
      const Autocast autocast(at::kCPU, precision);
      output = network.forward(input, true);
    }
    result.logits = output.logits.detach().clone();
    auto loss = output.logits.to(at::kDouble).pow(2).sum();
    if (output.auxiliary.defined()) {
      result.auxiliary = output.auxiliary.detach().clone();
      loss = loss + output.auxiliary.to(at::kDouble).pow(2).sum();
    }
    torch::autograd::backward({loss}, {});
  }
  result.peak = allocator_use().peak - before;
  for (const auto& parameter : network.parameters()) result.gradients.push_back(parameter.grad());
  result.statistics = network.buffers();
  return result;
}

void expect_same_bits(const Trial& trial, at::ScalarType type, const std::string& precision) {
  const auto plain = run(trial, false, type, precision), again = run(trial, true, type, precision);
  EXPECT_TRUE(at::equal(plain.logits, again.logits)) << trial.spec << " " << precision;
  ASSERT_EQ(plain.auxiliary.defined(), again.auxiliary.defined()) << trial.spec;
  if (plain.auxiliary.defined()) {
    EXPECT_TRUE(at::equal(plain.auxiliary, again.auxiliary)) << trial.spec << " " << precision;
  }
  ASSERT_EQ(plain.gradients.size(), again.gradients.size());
  for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
    ASSERT_TRUE(again.gradients[i].defined()) << trial.spec << " " << precision << " " << i;
    EXPECT_TRUE(at::equal(plain.gradients[i], again.gradients[i])) << trial.spec << " " << precision << " " << i;
  }
  for (std::size_t i = 0; i < plain.statistics.size(); ++i)
    EXPECT_TRUE(at::equal(plain.statistics[i], again.statistics[i])) << trial.spec << " " << precision << " " << i;
}

// Of each kind: with batch norm (whose statistics must be updated once), dropout, an auxiliary head, tied weights, and parts
// that stand still.
const char* const kNetworks[] = {"lenet", "resnet18", "mobilenetv2", "inceptionv3", "gpt", "transformer", "captioner"};

TEST(Recompute, GivesTheSameBitsAsPlainForwardAndBackward) {
  for (const auto* name : kNetworks) expect_same_bits(small_trial(name), at::kFloat, "fp32");
  for (const auto* name : {"lenet", "resnet18", "gpt"}) {
    expect_same_bits(small_trial(name), at::kDouble, "fp64");
    expect_same_bits(small_trial(name), at::kFloat, "bf16");
  }
  expect_same_bits({"captioner[depth=18,hidden=64]", small_trial("captioner").shape}, at::kFloat, "fp32");
}

TEST(Recompute, HoldsLess) {
  install_allocator(false);
  const Trial trial{"resnet18", {1, 28, 28, 10}};
  const auto plain = run(trial, false, at::kFloat, "fp32", 32).peak, again = run(trial, true, at::kFloat, "fp32", 32).peak;
  // Gradients, 45 MB, are held either way.
  EXPECT_LT(again, plain * 3 / 4) << plain << " without";
}

TEST(Recompute, CutsCoverTheNetworkInOrder) {
  for (const auto* name : kNetworks) {
    const auto trial = small_trial(name);
    const auto spec = parse_spec(trial.spec);
    const Network network(builtin_models().at(spec.name).make(spec, trial.shape), {});
    const auto cuts = recompute_cuts(network.graph());
    EXPECT_EQ(cuts.front(), 0U) << name;
    EXPECT_EQ(cuts.back(), network.graph().layers.size()) << name;
    for (std::size_t i = 1; i < cuts.size(); ++i) EXPECT_LT(cuts[i - 1], cuts[i]) << name;
    // Something is left out, however many inputs and outputs are alive all along.
    EXPECT_GE(cuts.size(), spec.name == "lenet" ? 3U : 4U) << name;
    if (spec.name == "resnet18") {
      EXPECT_GE(cuts.size(), 5U);
    }
  }
}

}  // namespace
}  // namespace ddl
