#include "ddl/train/optimizer.h"

#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

namespace ddl {
namespace {

TEST(Sgd, EqualsTorchOptimOverSeveralSteps) {
  for (const auto& options : {SgdOptions{0, 0}, SgdOptions{0.9, 0}, SgdOptions{0.9, 0.01}, SgdOptions{0, 0.1}})
    for (const auto type : {at::kFloat, at::kDouble}) {
      auto ours = at::linspace(-1, 1, 37, type).requires_grad_(true);
      auto theirs = ours.detach().clone().requires_grad_(true);
      Sgd sgd({ours}, options);
      torch::optim::SGD reference({theirs}, torch::optim::SGDOptions(0.1).momentum(options.momentum).weight_decay(options.weight_decay));
      for (int step = 0; step < 5; ++step) {
        const auto gradient = at::linspace(0, 1 + step, 37, type).sin();
        theirs.mutable_grad() = gradient.clone();
        reference.step();
        sgd.update(0, gradient, 0.1);
        const double tolerance = type == at::kFloat ? 1e-6 : 1e-15;
        EXPECT_LT((ours - theirs).abs().max().item<double>(), tolerance * 8);
      }
      EXPECT_EQ(sgd.state_bytes(), options.momentum == 0 ? 0 : ours.numel() * ours.element_size());
    }
}

TEST(Sgd, RefusesAGradientInAnotherOrder) {
  auto parameter = at::zeros({2, 3}).requires_grad_(true);
  Sgd sgd({parameter}, {});
  EXPECT_ANY_THROW(sgd.update(0, at::zeros({3, 2}), 0.1));
  EXPECT_ANY_THROW(sgd.update(0, at::zeros({3, 2}).t(), 0.1));
}

}  // namespace
}  // namespace ddl
