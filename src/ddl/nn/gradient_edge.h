#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

namespace ddl {

/// Where a node of autograd of our own sends the gradient of a tensor that it read; nowhere if the tensor was not given, or wants none.
inline torch::autograd::Edge edge_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor) : torch::autograd::Edge();
}

}  // namespace ddl
