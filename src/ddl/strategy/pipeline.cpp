#include <algorithm>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/partition/partition.h"
#include "ddl/strategy/pipeline/schedules.h"
#include "ddl/strategy/pipeline_tasks.h"

namespace ddl {
namespace {

std::string text_option(const Spec& spec, const std::string& key, const std::string& otherwise) {
  const auto found = spec.options.find(key);
  return found == spec.options.end() ? otherwise : found->second;
}

Recompute recompute_option(const Spec& spec) {
  const auto word = word_option(spec, "recompute", {"never", "always", "except-last"});
  return word == "never" ? Recompute::never : word == "always" ? Recompute::always : Recompute::except_last;
}

/// Of a network that goes through so many stages in micro-batches of so many samples. Errors: the partitioner's, before an order of as many passes is written.
LayerCosts costs_of(const StrategyInput& input, int stages, std::int64_t samples) {
  CostOptions options;
  options.samples = samples;
  options.element_bytes = input.element_bytes;
  options.optimizer_tensors = input.optimizer_tensors;
  options.forward = input.forward_seconds;
  options.backward = input.backward_seconds;
  auto costs = layer_costs(input.graph, options);
  partition_by_count({costs, stages});
  return costs;
}

/// Stages as the options say: `stages=3/5/2` outright, or so many by `balance`.
std::vector<int> cut(const StrategyInput& input, const LayerCosts& costs, int stages, InFlight in_flight) {
  if (const auto told = text_option(input.spec, "stages", ""); !told.empty()) {
    auto partition = parse_partition(told, costs);
    if (static_cast<int>(partition.cuts.size()) != stages)
      throw Error(Code::invalid_argument, fmt::format("[{}] stages={} has {} stages; expected {}, one for each chunk of each worker", input.spec.name, told, partition.cuts.size(), stages));
    return partition.cuts;
  }
  PartitionInput wanted{costs, stages};
  wanted.in_flight = std::move(in_flight);
  return builtin_partitioners().at(text_option(input.spec, "balance", "time")).make(wanted).cuts;
}

/// As many as keep a bubble small, 4 a worker (Huang et al., GPipe, NeurIPS 2019, section 2), where there are samples for them.
int usual_micro_batches(const StrategyInput& input, std::int64_t local) {
  if (input.micro_batches > 1) return input.micro_batches;
  const auto most = std::min<std::int64_t>(4 * input.workers, local);
  return static_cast<int>(most >= input.workers ? most / input.workers * input.workers : most);
}

}  // namespace

/// Layers over workers; the batch goes through in micro-batches, in the order of `schedule`.
/// Asynchronous orders (pipedream, pipedream-2bw) train with weights that are some updates old, each worker with its own (Role::staleness).
/// Options: schedule=1f1b, micro=4 a worker, chunks=1 (2 of those that need two), stages=3/5/2 or balance=time|flops|count|memory,
/// recompute=never|always|except-last, batch-norm=micro|deferred.
/// Errors: invalid_argument for numbers that do not go together, with those that would.
/// Source:  of each order, strategy/pipeline/.
Plan pipeline(const StrategyInput& input) {
  require_options(input.spec, {"schedule", "micro", "chunks", "stages", "balance", "recompute", "batch-norm"});
  const auto word = text_option(input.spec, "schedule", "1f1b");
  const auto schedules = builtin_pipeline_schedules();
  const auto& schedule = schedules.at(word).make;
  const auto local = local_batch(input, 1);
  PipelineShape shape{input.workers};
  shape.micro_batches = whole_option(input.spec, "micro", word == "pipedream" ? 1 : usual_micro_batches(input, local), 1, 1 << 20);
  shape.chunks = whole_option(input.spec, "chunks", schedule.least_chunks, 1, 1 << 10);
  if (shape.micro_batches > local)
    throw Error(Code::invalid_argument, fmt::format("[pipeline] micro-batches have a sample or more; got micro={} of a batch of {}, expected at most {}", shape.micro_batches,
                                                    local, local));
  const auto costs = costs_of(input, shape.stages(), (local + shape.micro_batches - 1) / shape.micro_batches);
  PipelinePlan plan;
  plan.order = schedule.order(shape);
  plan.micro_batches = shape.micro_batches;
  plan.recompute = recompute_option(input.spec);
  plan.deferred_statistics = word_option(input.spec, "batch-norm", {"micro", "deferred"}) == "deferred";
  if (!schedule.synchronous) {
    if (input.whole_gradient)
      throw Error(Code::unsupported, fmt::format("[pipeline] unsupported: asynchronous stages never see the whole gradient, which clipping and fp16 need; got schedule={}, expected "
                                                 "clip 0 and another precision, or a synchronous schedule", word));
    if (plan.deferred_statistics)
      throw Error(Code::unsupported, fmt::format("[pipeline] unsupported: forwards of several steps mix; got schedule={} with batch-norm=deferred, expected batch-norm=micro", word));
    for (int worker = 0; worker < input.workers; ++worker) {
      plan.staleness.push_back(schedule.staleness(shape, worker));
      plan.weight_versions.push_back(schedule.weight_versions(shape, worker));
    }
  }
  plan.cuts = cut(input, costs, shape.stages(), [&](int stage, int) {
    return static_cast<double>(schedule.in_flight(shape, plan.order.worker_of_stage[static_cast<std::size_t>(stage)])) / shape.chunks;
  });
  return pipeline_plan(input, plan);
}

/// Layers over workers, the whole batch through one after the other: whoever does not compute waits.
/// Options: stages=3/5/2 or balance=time|flops|count|memory, recompute=never|always.
Plan model_parallel(const StrategyInput& input) {
  require_options(input.spec, {"stages", "balance", "recompute"});
  const auto costs = costs_of(input, input.workers, (input.batch + input.micro_batches - 1) / input.micro_batches);
  PipelinePlan plan;
  plan.micro_batches = input.micro_batches;
  plan.order = gpipe().order({input.workers, input.micro_batches});
  plan.recompute = recompute_option(input.spec);
  plan.cuts = cut(input, costs, input.workers, [&](int, int) { return static_cast<double>(input.micro_batches); });
  return pipeline_plan(input, plan);
}

}  // namespace ddl
