#include <cmath>
#include <map>

#include "ddl/core/options.h"
#include "ddl/train/kernels/optimizer_kernels.h"
#include "ddl/train/optimizer.h"

namespace ddl {
namespace {

struct Options {
  double beta1, beta2, epsilon, weight_decay;
  bool decoupled;  ///< decay is no part of the gradient
};

/// Steps along the mean of gradients, divided by the root of the mean of their squares, in one pass over memory.
/// Source:  Kingma & Ba, Adam, ICLR 2015, algorithm 1; decoupled: Loshchilov & Hutter, Decoupled Weight Decay
///          Regularization, ICLR 2019, algorithm 2, with the decay times the learning rate as torch.optim.AdamW has it.
class Adam final : public Optimizer {
 public:
  Adam(std::vector<at::Tensor> parameters, Options options)
      : Optimizer(options.decoupled ? "adamw" : "adam", std::move(parameters), 2), options_(options), steps_(count()) {}

 private:
  void apply(const Update& u) override {
    const auto t = static_cast<double>(++steps_[u.number]);
    const double rate = u.learning_rate / (1 - std::pow(options_.beta1, t));
    const double root = 1 / std::sqrt(1 - std::pow(options_.beta2, t));
    const double keep = options_.decoupled ? 1 - u.learning_rate * options_.weight_decay : 1;
    const double decay = options_.decoupled ? 0 : options_.weight_decay;
    with_type(u.parameter, [&](auto zero) {
      using T = decltype(zero);
      T *const p = u.parameter.data_ptr<T>(), *const m = state_data<T>(0, u.number), *const v = state_data<T>(1, u.number);
      const T* const g = u.gradient.const_data_ptr<T>();
      const AdamStep<T> step{static_cast<T>(options_.beta1), static_cast<T>(options_.beta2), static_cast<T>(options_.epsilon), static_cast<T>(decay),
                             static_cast<T>(u.scale), static_cast<T>(rate), static_cast<T>(root), static_cast<T>(keep)};
      in_parts(u.parameter.numel(), [&](std::int64_t begin, std::size_t count) { adam_step(p + begin, m + begin, v + begin, g + begin, count, step); });
    });
  }

  void apply_aten(Updates& u) override {
    std::map<std::int64_t, at::Tensor> known;  // all have taken as many steps, but where some came without gradients
    std::vector<at::Tensor> steps;
    for (const auto number : u.numbers) {
      auto& step = known[++steps_[number]];
      if (!step.defined()) step = at::full({}, static_cast<double>(steps_[number]), u.parameters[0].options().dtype(at::kFloat));
      steps.push_back(step);
    }
    auto* const fused = options_.decoupled ? fused_adamw : fused_adam;
    fused(u, steps, options_);
  }

  static void fused_adam(Updates& u, at::TensorList steps, const Options& o) {
    at::_fused_adam_(u.parameters, u.gradients, u.states[0], u.states[1], {}, steps, u.learning_rate, o.beta1, o.beta2, o.weight_decay, o.epsilon, false,
                     false);
  }
  static void fused_adamw(Updates& u, at::TensorList steps, const Options& o) {
    at::_fused_adamw_(u.parameters, u.gradients, u.states[0], u.states[1], {}, steps, u.learning_rate, o.beta1, o.beta2, o.weight_decay, o.epsilon, false,
                      false);
  }

  Options options_;
  std::vector<std::int64_t> steps_;  ///< of each parameter
};

std::unique_ptr<Optimizer> make(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults, bool decoupled) {
  require_options(spec, {"beta1", "beta2", "epsilon"});
  constexpr double kBelowOne = 1 - 1e-9;
  return std::make_unique<Adam>(std::move(parameters),
                                Options{number_option(spec, "beta1", 0.9, 0, kBelowOne), number_option(spec, "beta2", 0.999, 0, kBelowOne),
                                        number_option(spec, "epsilon", 1e-8, 0, 1), defaults.weight_decay, decoupled});
}

}  // namespace

std::unique_ptr<Optimizer> adam(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults) {
  return make(std::move(parameters), spec, defaults, false);
}

std::unique_ptr<Optimizer> adamw(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults) {
  return make(std::move(parameters), spec, defaults, true);
}

}  // namespace ddl
