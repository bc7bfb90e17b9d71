#include <cmath>

#include "ddl/core/options.h"
#include "ddl/train/kernels/optimizer_kernels.h"
#include "ddl/train/optimizer.h"

namespace ddl {
namespace {

struct Options {
  double beta1, beta2, epsilon, weight_decay;
};

/// Adam's direction, scaled for each parameter to the parameter's own norm:
///     u = m' / (sqrt(v') + epsilon) + weight_decay p;   p <- p - learning_rate |p| / |u| u
/// of every parameter, biases and batch norm's among them, as the algorithm has it;
/// with m' and v' corrected for bias, and |p| / |u| taken as 1 if a norm is 0. Two passes over memory: the norms come
/// with the first.
/// Source:  You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, ICLR 2020, algorithm 2,
///          with phi the identity.
class Lamb final : public Optimizer, public NormsOfParts {
 public:
  Lamb(std::vector<at::Tensor> parameters, Options options)
      : Optimizer("lamb", std::move(parameters), 2), options_(options), steps_(count()) {}

 private:
  void apply(const Update& u) override { apply_measured(u.number, u.gradient, u.learning_rate, u.scale, measure(u.number, u.gradient, u.scale)); }

  template <typename T>
  LambStep<T> step_of(std::size_t number, double scale) const {
    const auto t = static_cast<double>(steps_[number]);
    return {static_cast<T>(options_.beta1), static_cast<T>(options_.beta2), static_cast<T>(options_.epsilon), static_cast<T>(options_.weight_decay), static_cast<T>(scale),
            static_cast<T>(1 / (1 - std::pow(options_.beta1, t))), static_cast<T>(1 / std::sqrt(1 - std::pow(options_.beta2, t)))};
  }

  Squares measure(std::size_t number, const at::Tensor& gradient, double scale) override {
    ++steps_[number];
    LambNorms norms{};
    with_type(parameter(number), [&](auto zero) {
      using T = decltype(zero);
      norms = lamb_moments(parameter(number).template data_ptr<T>(), state_data<T>(0, number), state_data<T>(1, number), gradient.const_data_ptr<T>(),
                           static_cast<std::size_t>(parameter(number).numel()), step_of<T>(number, scale));
    });
    return {norms.parameter, norms.direction};
  }

  void apply_measured(std::size_t number, const at::Tensor&, double learning_rate, double scale, const Squares& whole) override {
    const bool some = whole.parameter > 0 && whole.step > 0;
    const double rate = learning_rate * (some ? std::sqrt(whole.parameter) / std::sqrt(whole.step) : 1);
    with_type(parameter(number), [&](auto zero) {
      using T = decltype(zero);
      T *const p = parameter(number).template data_ptr<T>(), *const m = state_data<T>(0, number), *const v = state_data<T>(1, number);
      const auto step = step_of<T>(number, scale);
      in_parts(parameter(number).numel(), [&](std::int64_t begin, std::size_t count) { lamb_apply(p + begin, m + begin, v + begin, count, static_cast<T>(rate), step); });
    });
  }

  void apply_aten(Updates& u) override {
    std::vector<at::Scalar> corrections, roots;
    for (const auto number : u.numbers) {
      const auto t = static_cast<double>(++steps_[number]);
      corrections.emplace_back(1 / (1 - std::pow(options_.beta1, t)));
      roots.emplace_back(1 / std::sqrt(1 - std::pow(options_.beta2, t)));
    }
    at::_foreach_mul_(u.states[0], options_.beta1);
    at::_foreach_add_(u.states[0], u.gradients, 1 - options_.beta1);
    at::_foreach_mul_(u.states[1], options_.beta2);
    at::_foreach_addcmul_(u.states[1], u.gradients, u.gradients, 1 - options_.beta2);
    auto under = at::_foreach_sqrt(u.states[1]);
    at::_foreach_mul_(under, roots);
    at::_foreach_add_(under, options_.epsilon);
    auto directions = at::_foreach_mul(u.states[0], corrections);
    at::_foreach_div_(directions, under);
    under.clear();
    at::_foreach_add_(directions, u.parameters, options_.weight_decay);
    at::_foreach_mul_(directions, ratios_of_norms(u.parameters, directions));
    at::_foreach_sub_(u.parameters, directions, u.learning_rate);
  }

  Options options_;
  std::vector<std::int64_t> steps_;  ///< of each parameter
};

}  // namespace

std::unique_ptr<Optimizer> lamb(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults) {
  require_options(spec, {"beta1", "beta2", "epsilon"});
  constexpr double kBelowOne = 1 - 1e-9;
  return std::make_unique<Lamb>(std::move(parameters),
                                Options{number_option(spec, "beta1", 0.9, 0, kBelowOne), number_option(spec, "beta2", 0.999, 0, kBelowOne),
                                        number_option(spec, "epsilon", 1e-6, 0, 1), defaults.weight_decay});
}

}  // namespace ddl
