#include "ddl/core/options.h"
#include "ddl/train/kernels/optimizer_kernels.h"
#include "ddl/train/optimizer.h"

namespace ddl {
namespace {

/// Stochastic gradient descent in one pass over memory:
///     m <- momentum m + (g + weight_decay p);   p <- p - learning_rate m
/// with Nesterov's momentum p <- p - learning_rate ((g + weight_decay p) + momentum m).
/// Source:  torch.optim.SGD without dampening (its first step, m = g, is ours from m = 0).
class Sgd final : public Optimizer {
 public:
  struct Options {
    double momentum, weight_decay;
    bool nesterov;
  };
  Sgd(std::vector<at::Tensor> parameters, Options options)
      : Optimizer("sgd", std::move(parameters), options.momentum == 0 ? 0 : 1), options_(options) {}

 private:
  void apply(const Update& u) override {
    with_type(u.parameter, [&](auto zero) {
      using T = decltype(zero);
      T* const p = u.parameter.data_ptr<T>();
      T* const m = options_.momentum == 0 ? nullptr : state_data<T>(0, u.number);
      const T* const g = u.gradient.const_data_ptr<T>();
      const SgdStep<T> step{static_cast<T>(u.learning_rate), static_cast<T>(options_.momentum), static_cast<T>(options_.weight_decay), static_cast<T>(u.scale), options_.nesterov};
      in_parts(u.parameter.numel(), [&](std::int64_t begin, std::size_t count) { sgd_step(p + begin, m == nullptr ? m : m + begin, g + begin, count, step); });
    });
  }

  void apply_aten(Updates& u) override {
    at::_fused_sgd_(u.parameters, u.gradients, u.states.empty() ? at::TensorList() : at::TensorList(u.states[0]), options_.weight_decay,
                    options_.momentum, u.learning_rate, 0, options_.nesterov, false, false);
  }

  Options options_;
};

}  // namespace

std::unique_ptr<Optimizer> sgd(std::vector<at::Tensor> parameters, const Spec& spec, const OptimizerDefaults& defaults) {
  require_options(spec, {"momentum", "nesterov"});
  const Sgd::Options options{number_option(spec, "momentum", defaults.momentum, 0, 1), defaults.weight_decay, switch_option(spec, "nesterov", false)};
  if (options.nesterov && options.momentum == 0)
    throw Error(Code::invalid_argument, "[sgd] nesterov is a form of momentum; got momentum 0, expected more");
  return std::make_unique<Sgd>(std::move(parameters), options);
}

}  // namespace ddl
