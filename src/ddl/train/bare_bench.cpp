#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/data/dataset.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/builtin.h"
#include "ddl/nn/network.h"
#include "ddl/train/allocator.h"
#include "ddl/train/optimizer.h"

// What a step costs with no harness around it: the network that `ddlbench selftest` trains, in the loop that a user of
// LibTorch would write, on one batch of one sample that never changes. No loader, plan, trace, record or coordinator.
// bench/harness.py sets it beside the harness's whole step.
//
// usage: bare_bench [STEPS=300]
// prints: the median of the steps, milliseconds

namespace ddl {
namespace {

double median_step(int steps) {
  at::set_num_threads(1);
  install_allocator(true);
  Spec spec;
  spec.name = "null";
  spec.options["ms"] = "10";
  Network network(builtin_models().at(spec.name).make(spec, dataset_shape("fashion-mnist")), {});
  const auto optimizer = make_optimizer({"sgd", {}}, network.parameters(), {0.9, 0});
  const auto images = at::randn({1, 1, 28, 28});
  const auto labels = at::zeros({1}, at::kLong);
  std::vector<double> milliseconds;
  for (int step = 0; step < steps; ++step) {
    const auto begin = now();
    const auto loss = at::cross_entropy_loss(network.forward({images}, true).logits, labels);
    torch::autograd::backward({loss}, {at::ones({})});
    for (std::size_t i = 0; i < network.parameters().size(); ++i) {
      auto& gradient = network.parameters()[i].mutable_grad();
      optimizer->update(i, gradient, 0.01);
      gradient.reset();
    }
    (void)loss.item<double>();
    milliseconds.push_back(static_cast<double>(now() - begin) / 1e6);
  }
  return median(milliseconds);
}

}  // namespace
}  // namespace ddl

int main(int count, char** words) {
  int steps = 300;
  if (count > 2 || (count == 2 && (steps = std::atoi(words[1])) < 1)) {
    std::fprintf(stderr, "usage: bare_bench [STEPS]\n");
    return 2;
  }
  std::printf("%.6f\n", ddl::median_step(steps));
}
