#include "ddl/train/plan_job.h"

#include <utility>

#include "ddl/strategy/builtin.h"
#include "ddl/train/executor.h"
#include "ddl/train/precision.h"

namespace ddl {

namespace {

/// The word of strategy `data`.
std::string in_process(const Job& job) {
  const auto found = job.strategy.options.find("in-process");
  return job.strategy.name != "data" || found == job.strategy.options.end() ? "off" : found->second;
}

}  // namespace

bool is_in_process(const Job& job) { return in_process(job) != "off"; }

Plan plan_job(const Job& job, const ModelGraph& graph, std::vector<int> gradient_order) {
  const auto workers = static_cast<int>(job.workers.size());
  StrategyInput input{graph, workers, job.batch, element_bytes(job.precision), job.strategy, std::move(gradient_order)};
  input.micro_batches = static_cast<int>(job.accumulate);
  const auto optimizer = make_optimizer(job.optimizer, {}, {job.momentum, job.weight_decay});
  input.optimizer_tensors = optimizer->state_tensors();
  input.parameter_norms = dynamic_cast<const NormsOfParts*>(optimizer.get()) != nullptr;
  input.channels_last = job.kernels == "fast" && has_wide_convolutions(graph);
  input.forward_seconds = job.forward_seconds;
  input.backward_seconds = job.backward_seconds;
  Recipe recipe;
  recipe.precision = job.precision;
  recipe.clip = job.clip;
  input.whole_gradient = Executor::needs_whole_gradient(recipe);
  // Strategies of stages say of each task whether it is to be computed again.
  if (job.recompute && (job.strategy.name == "pipeline" || job.strategy.name == "model" || job.strategy.name == "tensor" || job.strategy.name == "hybrid")) input.spec.options.emplace("recompute", "always");
  if (job.recompute && job.strategy.name == "sharded") input.spec.options.emplace("recompute", "on");
  if (job.recompute && in_process(job) == "parallel") input.spec.options.emplace("recompute", "on");
  return builtin_strategies().at(job.strategy.name).make(input);
}

}  // namespace ddl
