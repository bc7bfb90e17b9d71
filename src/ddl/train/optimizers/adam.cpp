#include <cmath>

#include "ddl/train/kernels/optimizer_kernels.h"
#include "ddl/train/optimizer.h"
#include "ddl/train/options.h"

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
    if (!u.parameter.is_cpu()) {
      const auto d = u.gradient.mul(u.scale).add_(u.parameter, decay);
      auto& m = state(0, u.number).mul_(options_.beta1).add_(d, 1 - options_.beta1);
      auto& v = state(1, u.number).mul_(options_.beta2).addcmul_(d, d, 1 - options_.beta2);
      u.parameter.mul_(keep).addcdiv_(m, v.sqrt().mul_(root).add_(options_.epsilon), -rate);
      return;
    }
    with_type(u.parameter, [&](auto zero) {
      using T = decltype(zero);
      adam_step(u.parameter.data_ptr<T>(), state_data<T>(0, u.number), state_data<T>(1, u.number), u.gradient.const_data_ptr<T>(),
                static_cast<std::size_t>(u.parameter.numel()),
                AdamStep<T>{static_cast<T>(options_.beta1), static_cast<T>(options_.beta2), static_cast<T>(options_.epsilon), static_cast<T>(decay),
                            static_cast<T>(u.scale), static_cast<T>(rate), static_cast<T>(root), static_cast<T>(keep)});
    });
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
