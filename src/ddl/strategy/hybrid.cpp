#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/pipeline/schedules.h"
#include "ddl/strategy/pipeline_by_options.h"
#include "ddl/strategy/pipeline_tasks/pipeline_plan.h"
#include "ddl/strategy/sharded.h"
#include "ddl/strategy/split_parts.h"

namespace ddl {
namespace {

/// Sizes of the mesh's axes.
struct Sizes {
  int data = 1, pipeline = 1, tensor = 1, sharded = 1;
  std::int64_t workers() const { return static_cast<std::int64_t>(data) * pipeline * tensor * sharded; }
};

/// What is not told of `data` is what the others leave.
Sizes sizes_of(const StrategyInput& input) {
  const auto size = [&](const char* axis) { return whole_option(input.spec, axis, 1, 1, 1 << 20); };
  Sizes sizes{1, size("pipeline"), size("tensor"), size("sharded")};
  const auto others = sizes.workers();
  const bool told = input.spec.options.count("data") > 0;
  sizes.data = told ? size("data") : others <= input.workers ? static_cast<int>(input.workers / others) : 1;
  if (sizes.workers() != input.workers) {
    const auto fitting = input.workers % others == 0 ? fmt::format("data={}", input.workers / others) : fmt::format("pipeline x tensor x sharded that divides {}", input.workers);
    throw Error(Code::invalid_argument, fmt::format("[hybrid] a mesh has as many places as there are workers; got data={} x pipeline={} x tensor={} x sharded={} = {} for {} workers, "
                                                    "expected {}", sizes.data, sizes.pipeline, sizes.tensor, sizes.sharded, sizes.workers(), input.workers, fitting));
  }
  return sizes;
}

}  // namespace

/// A mesh: stages over axis "pipeline", each stage replicated over "data" and "sharded", and its layers split over "tensor", whose places stand together.
/// Over "sharded" replicas share what the optimizer keeps, as `sharded[level=1]` does; with neither stages nor split layers all that `sharded` does, level 3 unless told.
/// Options: data, pipeline, tensor, sharded (sizes, 1 unless told; data is what the others leave); those of `pipeline`; split, sequence of `tensor`; or those of `sharded`.
/// Errors: invalid_argument for a mesh that does not match the workers, and those of the strategies that it is made of, with numbers that would do.
/// Source: Narayanan et al., Megatron-LM on GPU clusters, SC21; Zhao et al., PyTorch FSDP, VLDB 2023.
Plan hybrid(const StrategyInput& input) {
  const bool mesh_of_replicas = input.spec.options.count("pipeline") == 0 && input.spec.options.count("tensor") == 0 && input.spec.options.count("sharded") > 0;
  if (mesh_of_replicas)
    require_options(input.spec, {"data", "sharded", "level", "overlap", "bucket", "unit", "prefetch", "reshard", "recompute", "collective"});
  else
    require_options(input.spec, {"data", "pipeline", "tensor", "sharded", "schedule", "micro", "chunks", "stages", "balance", "recompute", "batch-norm", "split", "sequence"});
  const auto sizes = sizes_of(input);
  if (input.workers == 1) return alone(input);
  if (mesh_of_replicas && sizes.sharded > 1) return sharded_plan(input, sizes.sharded);
  require_whole_norms(input, sizes.sharded);
  if (const auto balance = input.spec.options.find("balance"); balance != input.spec.options.end() && balance->second.starts_with("pipedream"))
    throw Error(Code::invalid_argument, fmt::format("[hybrid] the mesh says how many stages there are, and replicas of each; got balance={}, expected time, flops, count or memory",
                                                    balance->second));
  const auto schedule = input.spec.options.find("schedule");
  if (schedule != input.spec.options.end() && sizes.sharded * sizes.tensor > 1 && !builtin_pipeline_schedules().at(schedule->second).make.synchronous)
    throw Error(Code::unsupported, fmt::format("[hybrid] unsupported: shards and parts of asynchronous stages; got schedule={} with sharded={},tensor={}, expected 1 of both, or a synchronous "
                                               "schedule", schedule->second, sizes.sharded, sizes.tensor));
  const auto form = [&](const StrategyInput& each) {
    auto plan = pipeline_by_options(each, sizes.pipeline, sizes.data * sizes.sharded);
    plan.replicas = sizes.data;
    plan.shards = sizes.sharded;
    plan.parts = sizes.tensor;
    return plan;
  };
  if (sizes.tensor == 1) {
    for (const auto* word : {"split", "sequence"})
      if (input.spec.options.count(word) > 0)
        throw Error(Code::invalid_argument, fmt::format("[hybrid] {} is an option of a mesh with axis tensor; got it with tensor=1", word));
    return pipeline_plan(input, form(input));
  }
  require_whole_norms(input, sizes.tensor);
  const auto options = split_by_options(input);
  const auto part = split_graph(input.graph, options, 0, sizes.tensor);
  const auto of = of_part(input, part);
  auto plan = form(of);
  if (plan.deferred_statistics)
    throw Error(Code::unsupported, "[hybrid] unsupported: statistics of split maps that are updated once a step; got batch-norm=deferred with axis tensor, expected batch-norm=micro");
  plan.split = split_words(options);
  return pipeline_plan(of, plan);
}

}  // namespace ddl
