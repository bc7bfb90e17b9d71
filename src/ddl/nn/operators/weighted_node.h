#pragma once

#include <mutex>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/gradient_edge.h"
#include "ddl/nn/operators/autograd_node.h"
#include "ddl/nn/weight_gradient.h"

namespace ddl {

/// What goes back through an operator that has an input, a weight and a bias. Edges: these three.
struct WeightedNode : torch::autograd::Node {
  torch::autograd::SavedVariable input, weight;
  torch::autograd::SavedVariable rectified;  ///< its own output, where that went through a ReLU
  Sharing sharing = Sharing::others;         ///< put_gradient()'s
  bool rectifies = false;

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    input.reset_data();
    weight.reset_data();
    rectified.reset_data();
  }

  /// What goes back through a convolution of maps that lie channels last: `find(gradient, maps, factor, found)` finds what is wanted of it.
  template <typename Find>
  torch::autograd::variable_list back_through_maps(torch::autograd::variable_list&& gradients, Find&& find) {
    const std::lock_guard lock(mutex_);
    torch::autograd::variable_list found(3);
    if (!gradients[0].defined()) return found;
    const auto factor = weight.unpack(), maps = input.unpack();
    const auto gradient = gradient_before(gradients[0]).contiguous(at::MemoryFormat::ChannelsLast);
    gradients.clear();
    find(gradient, maps, factor, found);
    return found;
  }

  /// Of what is under the ReLU. Without the node's lock.
  at::Tensor gradient_before(const at::Tensor& gradient) { return rectifies ? at::threshold_backward(gradient, rectified.unpack(getptr()), 0) : gradient; }
};

/// `out`, made of these, with such a node behind it where one of them wants a gradient; `fill(node)` adds what it keeps besides. `rectifies`: `out` went through a ReLU.
template <typename Own, typename Fill>
at::Tensor with_node(at::Tensor out, const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, Sharing sharing, bool rectifies, Fill&& fill) {
  if (!torch::autograd::compute_requires_grad(input, weight, bias)) return out;
  auto node = make_node<Own>();
  for (const auto& from : {input, weight, bias}) node->add_next_edge(edge_of(from));
  node->input = torch::autograd::SavedVariable(input, false);
  node->weight = torch::autograd::SavedVariable(weight, false);
  node->sharing = sharing;
  fill(*node);
  torch::autograd::set_history(out, node);
  node->rectifies = rectifies;
  if (rectifies) node->rectified = torch::autograd::SavedVariable(out, true);
  return out;
}

}  // namespace ddl
