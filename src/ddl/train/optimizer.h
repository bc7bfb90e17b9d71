#pragma once

#include <vector>

#include <ATen/ATen.h>

namespace ddl {

struct SgdOptions {
  double momentum = 0;
  double weight_decay = 0;
};

/// Stochastic gradient descent with momentum, a parameter at a time, in one pass over memory:
///     m <- momentum * m + (g + weight_decay * p);   p <- p - learning_rate * m
/// Shape:   a gradient has its parameter's sizes and strides, fp32 or fp64.
/// Source:  torch.optim.SGD without dampening (its first step, m = g, is ours from m = 0).
class Sgd {
 public:
  /// The momentum of each parameter is made here, on its device; none without momentum.
  Sgd(std::vector<at::Tensor> parameters, SgdOptions options);

  /// Errors: invalid_argument where the gradient does not lie as its parameter does.
  void update(std::size_t parameter, const at::Tensor& gradient, double learning_rate);

  std::int64_t state_bytes() const;

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> momenta_;
  SgdOptions options_;
};

}  // namespace ddl
