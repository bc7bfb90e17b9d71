#include "ddl/train/plan_job.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ddl/nn/multiplier.h"
#include "ddl/strategy/batch_shares.h"
#include "ddl/strategy/builtin.h"
#include "ddl/train/executor.h"
#include "ddl/train/precision.h"

namespace ddl {

bool is_in_process(const Spec& strategy) {
  const auto word = strategy.options.find("in-process");
  return strategy.name == "data" && word != strategy.options.end() && word->second != "off";
}

std::vector<Holdings> holdings_by_worker(const Job& job, const ModelGraph& graph, const Plan& plan) {
  std::vector<Holdings> all;
  const bool alike = batch_shares(job.strategy).empty();
  std::map<std::int64_t, Holdings> known;  // by samples
  for (int worker = 0; worker < plan.workers(); ++worker) {
    if (alike) {
      all.push_back(plan.role_of(worker).holds);
      continue;
    }
    const auto samples = samples_of_share(job.strategy, job.batch, plan.shares(), plan.share_of(worker));
    const auto [place, unknown] = known.try_emplace(samples);
    if (unknown) {
      auto even = job;
      even.strategy.options.erase("shares");
      even.batch = std::max<std::int64_t>(1, samples) * plan.shares();
      place->second = plan_job(even, graph).roles.front().holds;
    }
    all.push_back(place->second);
  }
  return all;
}

bool dense_planes(const Job& job) {
  // What stages and parts of layers exchange lies channels last.
  const bool whole = job.strategy.name == "single" || job.strategy.name == "data" || job.strategy.name == "local";
  return whole && job.precision == "fp32" && std::all_of(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return worker.device.starts_with("cuda"); });
}

Plan plan_job(const Job& job, const ModelGraph& graph, std::vector<int> gradient_order) {
  const auto workers = static_cast<int>(job.workers.size());
  StrategyInput input{graph, workers, job.batch, element_bytes(job.precision), job.strategy, std::move(gradient_order)};
  input.micro_batches = static_cast<int>(job.accumulate);
  const auto optimizer = make_optimizer(job.optimizer, {}, {job.momentum, job.weight_decay});
  input.optimizer_tensors = optimizer->state_tensors();
  input.parameter_norms = dynamic_cast<const NormsOfParts*>(optimizer.get()) != nullptr;
  input.channels_last = job.kernels == "fast" && channels_lie_last(graph, dense_planes(job));
  input.mixed = job.precision == "bf16" || job.precision == "fp16";
  input.own_kernels = job.kernels == "fast" && (job.precision == "fp32" || job.precision == "bf16") &&
                      std::all_of(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return worker.device == "cpu"; });
  input.widens = input.own_kernels && input.mixed && !job.multiplies_bf16.value_or(multiplies_bf16());
  for (const auto& worker : job.workers) input.threads = std::max(input.threads, worker.threads);
  input.forward_seconds = job.forward_seconds;
  input.backward_seconds = job.backward_seconds;
  Recipe recipe;
  recipe.precision = job.precision;
  recipe.clip = job.clip;
  input.whole_gradient = Executor::needs_whole_gradient(recipe);
  input.recompute = job.recompute;
  input.whole_gradient_word = job.clip > 0 ? fmt::format("clip {}", job.clip) : fmt::format("precision {}", job.precision);
  input.optimizer_word = fmt::format("optimizer {}", job.optimizer.name);
  return builtin_strategies().at(job.strategy.name).make(input);
}

}  // namespace ddl
