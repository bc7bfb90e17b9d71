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
      sgd_step(u.parameter.data_ptr<T>(), options_.momentum == 0 ? nullptr : state_data<T>(0, u.number), u.gradient.const_data_ptr<T>(),
               static_cast<std::size_t>(u.parameter.numel()),
               SgdStep<T>{static_cast<T>(u.learning_rate), static_cast<T>(options_.momentum), static_cast<T>(options_.weight_decay),
                          static_cast<T>(u.scale), options_.nesterov});
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
