#include "ddl/train/optimizer.h"

#include <utility>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
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

void Optimizer::update(std::size_t number, const at::Tensor& gradient, double learning_rate, double gradient_scale) {
  auto& parameter = parameters_.at(number);
  if (!lies_alike(gradient, parameter) || gradient.scalar_type() != parameter.scalar_type())
    throw Error(Code::invalid_argument, fmt::format("[{}] gradient {} must lie as its parameter; got {} elements of {} in another order or type, "
                                                    "expected {} of {}", name_, number, gradient.numel(), c10::toString(gradient.scalar_type()),
                                                    parameter.numel(), c10::toString(parameter.scalar_type())));
  const c10::NoGradGuard guard;
  apply({number, parameter, gradient, learning_rate, gradient_scale});
}

std::int64_t Optimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& state : states_)
    for (const auto& tensor : state) bytes += static_cast<std::int64_t>(tensor.nbytes());
  return bytes;
}

double sum_of_squares(const at::Tensor& dense) {
  if (!dense.is_cpu()) return at::linalg_vector_norm(dense, 2, {}, false, at::kDouble).square().item<double>();
  double sum = 0;
  with_type(dense, [&](auto zero) {
    sum = sum_of_squares(dense.const_data_ptr<decltype(zero)>(), static_cast<std::size_t>(dense.numel()));
  });
  return sum;
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
