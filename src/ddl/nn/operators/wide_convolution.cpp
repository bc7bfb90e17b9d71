#include "ddl/nn/operators/wide_convolution.h"

#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "ddl/nn/multiplier.h"
#include "ddl/nn/operators/convolution_node.h"

namespace ddl {
namespace {

using torch::autograd::variable_list;

struct WideConvolutionNode final : ConvolutionNode {
  /// split_backward.cpp knows products by their names.
  std::string name() const override { return "WideConvolutionBackward"; }

  variable_list apply(variable_list&& gradients) override {
    const std::lock_guard lock(mutex_);
    variable_list found(3);
    if (!gradients[0].defined()) return found;
    const auto factor = weight.unpack(), maps = input.unpack();
    const auto gradient = gradients[0].to(at::kFloat);
    gradients.clear();
    const auto [of_maps, of_weight, of_bias] =
        backward(gradient, maps.to(at::kFloat), factor.to(at::kFloat), {task_should_compute_output(0), task_should_compute_output(1), task_should_compute_output(2)});
    if (of_maps.defined()) found[0] = of_maps.to(maps.scalar_type());
    if (of_weight.defined()) found[1] = of_weight.to(factor.scalar_type());
    if (of_bias.defined()) found[2] = of_bias.to(factor.scalar_type());
    return found;
  }
};

}  // namespace

bool takes_wide_convolution(const at::Tensor& maps, const NetworkOptions& options) {
  return options.kernels == Kernels::fast && maps.is_cpu() && maps.scalar_type() == at::kBFloat16 && maps.numel() > 0 && !multiplies_bf16();
}

at::Tensor convolve_widely(const at::Tensor& maps, const at::Tensor& weight, const at::Tensor& bias, const Attributes& of, at::IntArrayRef padding) {
  at::Tensor out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::impl::ExcludeDispatchKeyGuard as_wide(c10::autocast_dispatch_keyset);
    const auto wide = [](const at::Tensor& x) { return x.defined() ? x.to(at::kFloat) : x; };
    out = at::conv2d(wide(maps), wide(weight), wide(bias), {of.stride.height, of.stride.width}, padding, 1, of.groups).to(maps.scalar_type());
  }
  return with_convolution_node<WideConvolutionNode>(std::move(out), maps, weight, bias, of, padding);
}

}  // namespace ddl
