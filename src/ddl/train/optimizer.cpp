#include "ddl/train/optimizer.h"

#include <utility>

#include <c10/core/GradMode.h>

#include "ddl/core/error.h"
#include "ddl/train/sgd_kernel.h"

namespace ddl {
namespace {

/// Strides of dimensions of size one say nothing about where elements lie, and autograd does not keep them.
bool lies_alike(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return a.is_non_overlapping_and_dense();
}

template <typename T>
void run(at::Tensor& parameter, const at::Tensor& momentum, const at::Tensor& gradient, double learning_rate,
         const SgdOptions& options) {
  sgd_step(parameter.data_ptr<T>(), momentum.defined() ? momentum.data_ptr<T>() : nullptr, gradient.const_data_ptr<T>(),
           static_cast<std::size_t>(parameter.numel()), static_cast<T>(learning_rate), static_cast<T>(options.momentum),
           static_cast<T>(options.weight_decay));
}

}  // namespace

Sgd::Sgd(std::vector<at::Tensor> parameters, SgdOptions options)
    : parameters_(std::move(parameters)), momenta_(parameters_.size()), options_(options) {
  if (options_.momentum == 0) return;
  const c10::NoGradGuard guard;
  for (std::size_t i = 0; i < parameters_.size(); ++i) momenta_[i] = at::zeros_like(parameters_[i]);
}

void Sgd::update(std::size_t number, const at::Tensor& gradient, double learning_rate) {
  auto& parameter = parameters_.at(number);
  if (!lies_alike(gradient, parameter))
    throw Error(Code::invalid_argument, fmt::format("[sgd] gradient {} must lie as its parameter; got {} elements in another "
                                                    "order, expected {}", number, gradient.numel(), parameter.numel()));
  const c10::NoGradGuard guard;
  if (!parameter.is_cpu()) {
    auto step = options_.weight_decay == 0 ? gradient : gradient.add(parameter, options_.weight_decay);
    if (momenta_[number].defined()) step = momenta_[number].mul_(options_.momentum).add_(step);
    parameter.add_(step, -learning_rate);
  } else if (parameter.scalar_type() == at::kDouble) {
    run<double>(parameter, momenta_[number], gradient, learning_rate, options_);
  } else {
    run<float>(parameter, momenta_[number], gradient, learning_rate, options_);
  }
}

std::int64_t Sgd::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& momentum : momenta_)
    if (momentum.defined()) bytes += static_cast<std::int64_t>(momentum.nbytes());
  return bytes;
}

}  // namespace ddl
