#include <cmath>

#include "ddl/core/options.h"
#include "ddl/train/kernels/optimizer_kernels.h"
#include "ddl/train/optimizer.h"

namespace ddl {
namespace {

struct Options {
  double momentum, weight_decay, trust;
  bool vectors;
};

/// SGD whose learning rate is scaled, for each parameter, by the ratio of its norm to its gradient's:
///     r = trust |p| / (|g| + weight_decay |p|);   m <- momentum m + learning_rate r (g + weight_decay p);   p <- p - m
/// where r is 1 if a norm is 0. Two passes over memory: the norms come first.
/// Vectors (biases, scales and shifts of batch norm) are left out, r = 1 and no decay, unless vectors=on: a bias that
/// starts at 0 has no norm to follow (as MLPerf's rules have it; the paper says nothing of them).
/// Source:  You, Gitman & Ginsburg, Large Batch Training of Convolutional Networks, 2017, algorithm 1.
class Lars final : public Optimizer, public NormsOfParts {
 public:
  Lars(std::vector<at::Tensor> parameters, Options options) : Optimizer("lars", std::move(parameters), 1), options_(options) {}

 private:
  void apply(const Update& u) override { apply_measured(u.number, u.gradient, u.learning_rate, u.scale, measure(u.number, u.gradient, u.scale)); }

  bool adapts(std::size_t number) { return options_.vectors || parameter(number).dim() > 1; }

  Squares measure(std::size_t number, const at::Tensor& gradient, double scale) override {
    if (!adapts(number)) return {};
    return {sum_of_squares(parameter(number)), sum_of_squares(gradient) * scale * scale};
  }

  void apply_measured(std::size_t number, const at::Tensor& gradient, double learning_rate, double scale, const Squares& whole) override {
    auto& own = parameter(number);
    const double decay = adapts(number) ? options_.weight_decay : 0;
    double rate = learning_rate;
    const double p = std::sqrt(whole.parameter), g = std::sqrt(whole.step);
    if (p > 0 && g > 0) rate *= options_.trust * p / (g + decay * p);
    with_type(own, [&](auto zero) {
      using T = decltype(zero);
      T *const at = own.data_ptr<T>(), *const m = state_data<T>(0, number);
      const T* const from = gradient.const_data_ptr<T>();
      const LarsStep<T> step{static_cast<T>(rate), static_cast<T>(options_.momentum), static_cast<T>(decay), static_cast<T>(scale)};
      in_parts(own.numel(), [&](std::int64_t begin, std::size_t count) { lars_step(at + begin, m + begin, from + begin, count, step); });
    });
  }

  void apply_aten(Updates& u) override {
    // What is not adapted steps by its gradient as it is.
    auto steps = u.gradients;
    std::vector<std::size_t> places;
    std::vector<at::Tensor> parameters, gradients;
    for (std::size_t i = 0; i < u.parameters.size(); ++i) {
      if (!options_.vectors && u.parameters[i].dim() <= 1) continue;
      places.push_back(i);
      parameters.push_back(u.parameters[i]);
      gradients.push_back(u.gradients[i]);
    }
    if (!places.empty()) {
      auto adapted = at::_foreach_add(gradients, parameters, options_.weight_decay);
      at::_foreach_mul_(adapted, ratios_of_norms(parameters, gradients, options_.trust, options_.weight_decay));
      for (std::size_t i = 0; i < places.size(); ++i) steps[places[i]] = adapted[i];
    }
    at::_foreach_mul_(u.states[0], options_.momentum);
    at::_foreach_add_(u.states[0], steps, u.learning_rate);
    at::_foreach_sub_(u.parameters, u.states[0]);
  }

  Options options_;
};

}  // namespace

std::unique_ptr<Optimizer> lars(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults) {
  require_options(spec, {"momentum", "trust", "vectors"});
  return std::make_unique<Lars>(std::move(parameters),
                                Options{number_option(spec, "momentum", defaults.momentum, 0, 1), defaults.weight_decay,
                                        number_option(spec, "trust", 0.001, 0, 1e6), switch_option(spec, "vectors", false)});
}

}  // namespace ddl
