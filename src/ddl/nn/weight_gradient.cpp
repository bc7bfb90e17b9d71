#include "ddl/nn/weight_gradient.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/gradient_place.h"

namespace ddl {

at::Tensor put_gradient(const at::Tensor& weight, bool alone, c10::function_ref<void(at::Tensor& to, bool adds)> write) {
  // A pass that is asked for certain gradients returns them, and adds them to nothing.
  const auto* const asked = torch::autograd::get_current_graph_task_exec_info();
  if (weight.is_leaf() && asked != nullptr && asked->empty()) {
    auto& hook = torch::autograd::impl::post_acc_grad_hooks(weight);
    if (hook == nullptr) {
      if (auto& sum = weight.mutable_grad(); sum.defined() && sum.strides() == weight.strides() && sum.scalar_type() == weight.scalar_type()) {
        write(sum, true);
        return {};
      }
    } else if (auto* const owner = alone ? dynamic_cast<GradientPlace*>(hook.get()) : nullptr; owner != nullptr) {
      if (auto place = owner->place(); place) {
        write(place->gradient, place->adds);
        owner->arrived();
        return {};
      }
    }
  }
  auto gradient = at::empty_like(weight, weight.options().requires_grad(false));
  write(gradient, false);
  return gradient;
}

}  // namespace ddl
