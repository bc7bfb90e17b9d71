#include "ddl/train/optimizer.h"

#include <utility>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/nn/threads.h"
#include "ddl/train/device.h"
#include "ddl/train/kernels/optimizer_kernels.h"
#include "ddl/train/optimizer_list.h"

namespace ddl {
namespace {

/// Strides of dimensions of size one say nothing about where elements lie, and autograd does not keep them.
bool lies_alike(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return a.is_non_overlapping_and_dense();
}

}  // namespace

Optimizer::Optimizer(std::string name, std::vector<at::Tensor> parameters, int state_tensors)
    : name_(std::move(name)), parameters_(std::move(parameters)), states_(static_cast<std::size_t>(state_tensors)) {
  const c10::NoGradGuard guard;
  for (auto& state : states_)
    for (const auto& parameter : parameters_) state.push_back(at::zeros_like(parameter));
}

void Optimizer::update(const std::vector<std::size_t>& numbers, const std::vector<at::Tensor>& gradients, double learning_rate, double gradient_scale) {
  invariant(numbers.size() == gradients.size(), "each parameter has its gradient");
  const c10::NoGradGuard guard;
  Updates elsewhere{.learning_rate = learning_rate};
  elsewhere.states.resize(states_.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto& gradient = gradients[i];
    auto& parameter = parameters_.at(numbers[i]);
    if (!lies_alike(gradient, parameter) || gradient.scalar_type() != parameter.scalar_type())
      throw Error(Code::invalid_argument, fmt::format("[{}] gradient {} must lie as its parameter; got {} elements of {} in another order or type, "
                                                      "expected {} of {}", name_, numbers[i], gradient.numel(), c10::toString(gradient.scalar_type()),
                                                      parameter.numel(), c10::toString(parameter.scalar_type())));
    if (parameter.is_cpu() && !aten_) {
      apply({numbers[i], parameter, gradient, learning_rate, gradient_scale});
      continue;
    }
    elsewhere.numbers.push_back(numbers[i]);
    elsewhere.parameters.push_back(parameter.detach());  // one that shares its memory and asks for no gradient
    elsewhere.gradients.push_back(gradient);
    for (std::size_t which = 0; which < states_.size(); ++which) elsewhere.states[which].push_back(states_[which][numbers[i]]);
  }
  if (elsewhere.numbers.empty()) return;
  if (gradient_scale != 1) elsewhere.gradients = at::_foreach_mul(elsewhere.gradients, gradient_scale);
  apply_aten(elsewhere);
}

void Optimizer::in_parts(std::int64_t elements, const std::function<void(std::int64_t, std::size_t)>& body) {
  share_out(elements, 1, [&](std::int64_t begin, std::int64_t end) { body(begin, static_cast<std::size_t>(end - begin)); });
}

std::int64_t Optimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& state : states_)
    for (const auto& tensor : state) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

double sum_of_squares(const at::Tensor& dense) {
  double sum = 0;
  with_type(dense, [&](auto zero) {
    sum = sum_of_squares(dense.const_data_ptr<decltype(zero)>(), static_cast<std::size_t>(dense.numel()));
  });
  return sum;
}

double sum_of_squares(const std::vector<at::Tensor>& dense, Device& device) {
  if (dense.empty()) return 0;
  if (!device.is_host()) return fetch(device, at::stack(at::_foreach_norm(dense, 2, at::kDouble)).square().sum()).item<double>();
  double sum = 0;
  for (const auto& each : dense) sum += sum_of_squares(each);
  return sum;
}

std::vector<at::Tensor> ratios_of_norms(at::TensorList a, at::TensorList b, double trust, double decay) {
  const auto over = at::stack(at::_foreach_norm(a, 2, at::kDouble)), under = at::stack(at::_foreach_norm(b, 2, at::kDouble));
  const auto some = over.gt(0).logical_and(under.gt(0));
  return at::where(some, over.mul(trust).div(under.add(over, decay)), at::ones_like(over)).unbind();
}

Registry<OptimizerFactory> builtin_optimizers() {
  Registry<OptimizerFactory> optimizers("optimizer");
  optimizers.add({"sgd", "stochastic gradient descent; momentum, nesterov", sgd});
  optimizers.add({"adam", "moments of the gradient, decay added to it; beta1, beta2, epsilon", adam});
  optimizers.add({"adamw", "adam with decay apart from the gradient; beta1, beta2, epsilon", adamw});
  optimizers.add({"lars", "sgd with a learning rate for each layer, for large batches; momentum, trust, vectors", lars});
  optimizers.add({"lamb", "adam with a learning rate for each layer, for large batches; beta1, beta2, epsilon", lamb});
  return optimizers;
}

std::vector<std::pair<std::string, std::string>> optimizer_list() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& entry : builtin_optimizers().entries()) all.emplace_back(entry.name, entry.summary);
  return all;
}

std::unique_ptr<Optimizer> make_optimizer(const Spec& spec, std::vector<at::Tensor> parameters, const OptimizerDefaults& defaults) {
  return builtin_optimizers().at(spec.name).make(std::move(parameters), spec, defaults);
}

}  // namespace ddl
