#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/core/registry.h"
#include "ddl/core/spec.h"
#include "ddl/nn/element_type.h"

namespace ddl {

class Device;

/// A rule by which gradients change parameters, some parameters at a time, as soon as their gradients are there.
/// Shape:   a gradient has its parameter's sizes and strides, fp32 or fp64.
/// On the CPU kernels of ours do it in as few passes over memory as there can be. Elsewhere ATen's operators do, for many parameters in one where
/// there are such, and nothing is waited for.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One step of one parameter; the gradient counts `gradient_scale` times what it says.
  /// Errors: invalid_argument where the gradient does not lie as its parameter does.
  void update(const std::vector<std::size_t>& parameters, const std::vector<at::Tensor>& gradients, double learning_rate, double gradient_scale = 1);
  void update(std::size_t parameter, const at::Tensor& gradient, double learning_rate, double gradient_scale = 1) {
    update(std::vector{parameter}, {gradient}, learning_rate, gradient_scale);
  }

  /// Updates other tensors of the same shapes from now on; its state goes with them.
  void use(std::vector<at::Tensor> parameters) { parameters_ = std::move(parameters); }

  /// Leaves CPU tensors to ATen, too: what Kernels::torch stands for.
  void use_aten() { aten_ = true; }

  /// Tensors kept for each parameter, of its size and type.
  int state_tensors() const { return static_cast<int>(states_.size()); }
  std::int64_t state_bytes() const;
  /// The `which`-th of the tensors that are kept for a parameter.
  const at::Tensor& kept(int which, std::size_t parameter) const { return states_.at(static_cast<std::size_t>(which)).at(parameter); }

 protected:
  /// Calls it for parts of so many elements that make up the whole, [begin, begin + count): on as many threads as LibTorch has, where there is enough to do. For what gives the same bits however it is divided.
  static void in_parts(std::int64_t elements, const std::function<void(std::int64_t begin, std::size_t count)>& body);
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
  /// On the CPU.
  virtual void apply(const Update& update) = 0;

  /// What several updates are given, in lists as ATen's operators take them. Gradients are scaled already.
  struct Updates {
    std::vector<std::size_t> numbers;
    std::vector<at::Tensor> parameters, gradients;
    double learning_rate;
    std::vector<std::vector<at::Tensor>> states = {};  ///< [which][parameter]
  };
  /// Anywhere.
  virtual void apply_aten(Updates& updates) = 0;

  at::Tensor& state(int which, std::size_t parameter) { return states_[static_cast<std::size_t>(which)][parameter]; }
  template <typename T>
  T* state_data(int which, std::size_t parameter) {
    return state(which, parameter).template data_ptr<T>();
  }
  std::size_t count() const { return parameters_.size(); }
  at::Tensor& parameter(std::size_t number) { return parameters_[number]; }

 private:
  std::string name_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::vector<at::Tensor>> states_;
  bool aten_ = false;
};

/// What a rule is that scales each parameter's step by norms of the whole parameter, where a worker has but a part of it: an update in two halves,
/// with sums over workers between them. On the CPU.
class NormsOfParts {
 public:
  virtual ~NormsOfParts() = default;
  /// Sums of squares.
  struct Squares {
    double parameter = 0;
    double step = 0;       ///< of the gradient, as it counts, or of the direction
  };
  /// Of the part; the first half of Optimizer::update().
  virtual Squares measure(std::size_t parameter, const at::Tensor& gradient, double gradient_scale) = 0;
  /// The second, with those of the whole.
  virtual void apply_measured(std::size_t parameter, const at::Tensor& gradient, double learning_rate, double gradient_scale, const Squares& whole) = 0;
};

/// In fp64. For fp32 finite exactly where all elements are. On the CPU.
double sum_of_squares(const at::Tensor& dense);
/// Of all of them together; waits once for the device that they are on.
double sum_of_squares(const std::vector<at::Tensor>& dense, Device& device);

/// Of each pair |a| / |b| in fp64 where neither norm is 0, else 1, as tensors of one element where those are: nothing is waited for, and of many tensors on a GPU a few kernels are started.
/// Of LARS: trust |a| / (|b| + decay |a|). Not of none.
std::vector<at::Tensor> ratios_of_norms(at::TensorList a, at::TensorList b, double trust = 1, double decay = 0);

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
