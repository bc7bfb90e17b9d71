#include "ddl/train/plan_job.h"

#include <utility>

#include "ddl/strategy/builtin.h"
#include "ddl/train/executor.h"
#include "ddl/train/precision.h"

namespace ddl {

Plan plan_job(const Job& job, const ModelGraph& graph, std::vector<int> gradient_order) {
  const auto workers = static_cast<int>(job.workers.size());
  StrategyInput input{graph, workers, (job.batch + workers - 1) / workers, element_bytes(job.precision), job.strategy, std::move(gradient_order)};
  input.micro_batches = static_cast<int>(job.accumulate);
  input.optimizer_tensors = make_optimizer(job.optimizer, {}, {job.momentum, job.weight_decay})->state_tensors();
  Recipe recipe;
  recipe.precision = job.precision;
  recipe.clip = job.clip;
  input.whole_gradient = Executor::needs_whole_gradient(recipe);
  return builtin_strategies().at(job.strategy.name).make(input);
}

}  // namespace ddl
