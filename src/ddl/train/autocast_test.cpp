#include "ddl/train/autocast.h"

#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ddl/core/spec.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/network_testing.h"
#include "ddl/train/objective.h"

namespace ddl {
namespace {

struct Result {
  double loss = 0, norm = 0;  ///< of the gradient of all parameters
  bool wide = true;           ///< all gradients are fp32
};

Result run(const Trial& trial, const std::string& precision) {
  const auto spec = parse_spec(trial.spec);
  Network network(builtin_models().at(spec.name).make(spec, trial.shape), {at::kFloat, at::kCPU, Kernels::fast, 5});
  const auto samples = made_up_samples(4, trial.shape, at::kFloat);
  const auto loss = [&] {
    const Autocast autocast(at::kCPU, precision);
    return loss_sum(network.forward(samples.input, true), samples.labels, 0);
  }();
  torch::autograd::backward({loss}, {});
  Result result{loss.item<double>()};
  for (const auto& parameter : network.parameters()) {
    result.wide = result.wide && parameter.grad().scalar_type() == at::kFloat;
    result.norm += parameter.grad().to(at::kDouble).pow(2).sum().item<double>();
  }
  result.norm = std::sqrt(result.norm);
  return result;
}

// Every network, of families one. bf16 has 8 bits, fp16 11: products deviate by 0.4 and 0.05 %, and batch norm of four samples magnifies that.
TEST(Autocast, NetworksLearnTheSameInSixteenBits) {
  for (const auto* name : {"mlp", "lenet", "smallcnn", "resnet18", "resnet50v2", "vgg11", "alexnet", "mobilenetv2", "inceptionv3", "transformer",
                           "transformer-big", "gpt", "captioner"}) {
    // On images so small Inception V3 takes batch statistics of four numbers.
    const double slack = std::string(name) == "inceptionv3" ? 4 : 1;
    const auto trial = tiny_trial(name);
    const auto single = run(trial, "fp32");
    for (const auto& [precision, near] : {std::pair{"bf16", 0.2}, {"fp16", 0.05}}) {
      // Convolutions in fp16 take processors without it ten times as long.
      const bool wide_convolutions = std::set<std::string>{"resnet50v2", "vgg11", "alexnet", "mobilenetv2", "inceptionv3"}.contains(name);
      if (wide_convolutions && std::string(precision) == "fp16") continue;
      const auto half = run(trial, precision);
      EXPECT_NEAR(half.loss, single.loss, slack * near * single.loss) << name << " " << precision;
      EXPECT_NEAR(half.norm, single.norm, 2 * slack * near * single.norm) << name << " " << precision;
      EXPECT_TRUE(half.loss != single.loss || half.norm != single.norm) << name << " " << precision << " computes as fp32";
      EXPECT_TRUE(half.wide) << name << " " << precision;
    }
  }
}

TEST(Autocast, EndsWithItsScopeAndNests) {
  const auto type = [] { return at::linear(at::ones({2, 2}), at::ones({2, 2})).scalar_type(); };
  EXPECT_EQ(type(), at::kFloat);
  {
    const Autocast outer(at::kCPU, "bf16");
    EXPECT_EQ(type(), at::kBFloat16);
    {
      const Autocast inner(at::kCPU, "fp16"), none(at::kCPU, "fp32");
      EXPECT_EQ(type(), at::kHalf);
    }
    EXPECT_EQ(type(), at::kBFloat16);
  }
  EXPECT_EQ(type(), at::kFloat);
}

}  // namespace
}  // namespace ddl
