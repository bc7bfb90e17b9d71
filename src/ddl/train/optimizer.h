#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/core/registry.h"
#include "ddl/core/spec.h"

namespace ddl {

/// A rule by which gradients change parameters, a parameter at a time, as soon as its gradient is there.
/// Shape:   a gradient has its parameter's sizes and strides, fp32 or fp64.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One step of one parameter; the gradient counts `gradient_scale` times what it says.
  /// Errors: invalid_argument where the gradient does not lie as its parameter does.
  void update(std::size_t parameter, const at::Tensor& gradient, double learning_rate, double gradient_scale = 1);

  /// Tensors kept for each parameter, of its size and type.
  int state_tensors() const { return static_cast<int>(states_.size()); }
  std::int64_t state_bytes() const;

 protected:
  /// The state starts as zeros, on its parameter's device. `name` is that of messages.
  Optimizer(std::string name, std::vector<at::Tensor> parameters, int state_tensors);

  /// What one update is given.
  struct Update {
    std::size_t number;
    at::Tensor& parameter;
    const at::Tensor& gradient;
    double learning_rate;
    double scale;
  };
  virtual void apply(const Update& update) = 0;

  at::Tensor& state(int which, std::size_t parameter) { return states_[static_cast<std::size_t>(which)][parameter]; }
  template <typename T>
  T* state_data(int which, std::size_t parameter) {
    return state(which, parameter).template data_ptr<T>();
  }
  std::size_t count() const { return parameters_.size(); }

 private:
  std::string name_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::vector<at::Tensor>> states_;
};

/// `body(T{})` with the element type of a tensor of fp32 or fp64.
template <typename Body>
void with_type(const at::Tensor& tensor, const Body& body) {
  tensor.scalar_type() == at::kDouble ? body(double{}) : body(float{});
}

/// In fp64. For fp32 finite exactly where all elements are. Tensors of other devices than the CPU are waited for.
double sum_of_squares(const at::Tensor& dense);

/// What an optimizer's own options win over.
struct OptimizerDefaults {
  double momentum = 0;      ///< of those that have one
  double weight_decay = 0;
};

using OptimizerFactory =
    std::function<std::unique_ptr<Optimizer>(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults)>;

/// sgd, adam, adamw, lars, lamb. Errors of their factories: invalid_argument for unknown options and values out of range.
Registry<OptimizerFactory> builtin_optimizers();

/// By name and options: make_optimizer({"adam", {}}, parameters, {}).
std::unique_ptr<Optimizer> make_optimizer(const Spec& spec, std::vector<at::Tensor> parameters, const OptimizerDefaults& defaults = {});

std::unique_ptr<Optimizer> sgd(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults);
std::unique_ptr<Optimizer> adam(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults);
std::unique_ptr<Optimizer> adamw(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults);
std::unique_ptr<Optimizer> lars(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults);
std::unique_ptr<Optimizer> lamb(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults);

}  // namespace ddl
