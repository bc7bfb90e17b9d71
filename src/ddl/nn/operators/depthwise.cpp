#include "ddl/nn/operators/depthwise.h"

#include <array>
#include <utility>
#include <vector>

#include <ATen/core/LegacyTypeDispatch.h>

#include "ddl/nn/operators/convolution_node.h"

namespace ddl {
namespace {

using torch::autograd::variable_list;

std::array<std::int64_t, 2> both(const Pair& pair) { return {pair.height, pair.width}; }

struct GroupsNode final : ConvolutionNode {
  /// split_backward.cpp knows products by their names.
  std::string name() const override { return "GroupsBackward"; }

  /// One sample at a time, which stays in the caches while it is wide.
  at::Tensor gradient_of_maps(const at::Tensor& gradient, const at::Tensor& maps, const at::Tensor& by) const {
    const auto wide = by.to(at::kFloat);
    auto found = at::empty(maps.sizes(), maps.options().requires_grad(false).memory_format(at::MemoryFormat::ChannelsLast));
    // Of the maps ATen wants to know no more than how they lie.
    auto sizes = maps.sizes().vec();
    sizes[0] = 1;
    const auto like = at::empty(sizes, wide.options().requires_grad(false).memory_format(at::MemoryFormat::ChannelsLast));
    for (std::int64_t sample = 0; sample < maps.size(0); ++sample)
      found.narrow(0, sample, 1).copy_(std::get<0>(backward(gradient.narrow(0, sample, 1).to(at::kFloat), like, wide, {true, false, false})));
    return found;
  }

  variable_list apply(variable_list&& gradients) override {
    return back_through_maps(std::move(gradients), [&](const at::Tensor& gradient, const at::Tensor& from, const at::Tensor& factor, variable_list& found) {
      if (task_should_compute_output(0)) found[0] = gradient_of_maps(gradient, from, factor);
      if (!task_should_compute_output(1) && !task_should_compute_output(2)) return;
      const auto [maps, weights, biases] = backward(gradient, from, factor.to(from.scalar_type()), {false, task_should_compute_output(1), task_should_compute_output(2)});
      if (weights.defined()) found[1] = weights.to(factor.scalar_type());
      if (biases.defined()) found[2] = biases.to(factor.scalar_type());
    });
  }
};

}  // namespace

bool takes_groups_apart(const at::Tensor& maps, const Attributes& of, const NetworkOptions& options) {
  return options.kernels == Kernels::fast && of.groups > 1 && (of.stride.height > 1 || of.stride.width > 1) && maps.is_cpu() && maps.scalar_type() == at::kBFloat16 && maps.numel() > 0 &&
         maps.is_contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor convolve_groups_apart(const at::Tensor& maps, const at::Tensor& weight, const at::Tensor& bias, const Attributes& of, at::IntArrayRef padding) {
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = at::conv2d(maps, weight.to(maps.scalar_type()), bias.defined() ? bias.to(maps.scalar_type()) : bias, both(of.stride), padding, 1, of.groups);
  }
  return with_convolution_node<GroupsNode>(std::move(out), maps, weight, bias, of, padding);
}

}  // namespace ddl
