#include "ddl/nn/weight_gradient.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/nn/gradient_place.h"

namespace ddl {

bool returns_gradients() {
  const auto* const asked = torch::autograd::get_current_graph_task_exec_info();
  return asked == nullptr || !asked->empty();
}

bool has_hook(const at::Tensor& weight) { return torch::autograd::impl::post_acc_grad_hooks(weight) != nullptr; }

at::Tensor put_gradient(const at::Tensor& weight, Sharing sharing, c10::function_ref<void(at::Tensor& to, bool adds)> write, std::int64_t widened) {
  const auto make = [&] { return at::empty_like(weight, weight.options().requires_grad(false)); };
  if (weight.is_leaf() && !returns_gradients()) {
    auto& hook = torch::autograd::impl::post_acc_grad_hooks(weight);
    if (hook == nullptr) {
      // Put there at once, autograd adds what others of this pass make here, in place; handed the rows of a table beside it, it would make a third tensor.
      auto& sum = weight.mutable_grad();
      const bool adds = sum.defined();
      if (!adds) sum = make();
      if (!sum.is_sparse() && sum.strides() == weight.strides() && sum.scalar_type() == weight.scalar_type()) {
        write(sum, adds);
        return {};
      }
    } else if (const bool alone = sharing == Sharing::none; alone || sharing == Sharing::tables) {
      auto* const owner = dynamic_cast<GradientPlace*>(hook.get());
      if (auto place = owner != nullptr ? owner->place() : std::nullopt; place) {
        write(place->gradient, place->adds);
        owner->arrived(alone, widened);
        return {};
      }
    }
  }
  auto gradient = make();
  write(gradient, false);
  return gradient;
}

}  // namespace ddl
