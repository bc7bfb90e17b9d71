#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/own_options.h"
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
  std::vector<int> parts = {1};  ///< of each axis that layers are split over, together `tensor`
  std::int64_t workers() const { return static_cast<std::int64_t>(data) * pipeline * tensor * sharded; }
};

std::vector<int> divisors(int number) {
  std::vector<int> all;
  for (int each = 1; each <= number; ++each)
    if (number % each == 0) all.push_back(each);
  return all;
}

/// What is not told of `data` is what the others leave.
Sizes sizes_of(const StrategyInput& input) {
  const auto size = [&](const char* axis) { return whole_option(input.spec, axis, 1, 1, 1 << 20); };
  Sizes sizes{1, size("pipeline"), 1, size("sharded")};
  if (input.spec.options.contains("tensor")) sizes.parts = mesh_option(input.spec, "tensor");
  sizes.tensor = product(sizes.parts);
  const auto others = sizes.workers();
  const bool told = input.spec.options.count("data") > 0;
  sizes.data = told ? size("data") : others <= input.workers ? static_cast<int>(input.workers / others) : 1;
  if (sizes.workers() != input.workers) {
    const auto fitting = input.workers % others == 0 ? fmt::format("data={}", input.workers / others)
                                                     : fmt::format("pipeline x tensor x sharded that divides {}: {}", input.workers, fmt::join(divisors(input.workers), ", "));
    throw Error(Code::invalid_argument, fmt::format("[hybrid] a mesh has as many places as there are workers; got data={} x pipeline={} x tensor={} x sharded={} = {} for {} workers, "
                                                    "expected {}", sizes.data, sizes.pipeline, fmt::join(sizes.parts, "x"), sizes.sharded, sizes.workers(), input.workers, fitting));
  }
  return sizes;
}

/// Of a mesh of replicas alone.
WhyNot without_stages() {
  WhyNot why;
  for (const auto* option : {"schedule", "micro", "chunks", "stages", "balance", "batch-norm"}) why[option] = {fmt::format("{} is an option of axis pipeline, which this mesh does not have", option), "pipeline=2 or more besides"};
  for (const auto* option : {"split", "sequence"}) why[option] = {fmt::format("{} is an option of axis tensor, which this mesh does not have", option), "tensor=2 or more besides"};
  return why;
}

/// Of one with stages or parts of layers.
WhyNot with_stages(const StrategyInput& input) {
  WhyNot why{{"replicas", {"the mesh has as many workers for each stage, data x sharded", "no replicas, or strategy pipeline"}}};
  for (const auto* option : {"bandwidth", "machines"})
    why[option] = {fmt::format("{} is for balance=pipedream, which finds stages, and here the mesh says them", option), "strategy pipeline[balance=pipedream]"};
  if (input.spec.options.contains("pipeline") || input.spec.options.contains("tensor"))
    for (const auto* option : {"overlap", "bucket", "unit", "prefetch", "reshard"})
      why[option] = {fmt::format("{} is an option of a mesh of axes data and sharded alone", option), fmt::format("no {}, or neither pipeline nor tensor: hybrid[data=2,sharded=2]", option)};
  return why;
}

/// What replicas of stages, or of parts of layers, share is what the optimizer keeps.
void require_level(const Spec& spec, const Sizes& sizes) {
  const auto level = spec.options.find("level");
  if (level == spec.options.end()) return;
  if (sizes.sharded == 1)
    throw Error(Code::invalid_argument, fmt::format("[hybrid] level is an option of axis sharded; got level={} with sharded=1, expected sharded=2 or more, or no level", level->second));
  if (whole_option(spec, "level", 1, 1, 3) != 1)
    throw Error(Code::invalid_argument, fmt::format("[hybrid] beside axes pipeline and tensor, axis sharded divides what the optimizer keeps, and neither gradients nor parameters; got level={} with "
                                                    "pipeline={},tensor={},sharded={}, expected level=1 or none, or a mesh of data and sharded alone: hybrid[sharded={},level={}]", level->second,
                                                    sizes.pipeline, fmt::join(sizes.parts, "x"), sizes.sharded, sizes.sharded, level->second));
}

}  // namespace

/// A mesh: stages over axis "pipeline", each stage replicated over "data" and "sharded", and its layers split over "tensor", whose places stand together;
/// tensor=2x3 is two axes of those, with split=…/….
/// Over "sharded" replicas share what the optimizer keeps, as `sharded[level=1]` does; with neither stages nor split layers all that `sharded` does, level 3 unless told.
/// Options: data, pipeline, tensor, sharded (sizes, 1 unless told; data is what the others leave); those of `pipeline`; split, sequence of `tensor`; level=1; or those of `sharded`.
/// Errors: invalid_argument for a mesh that does not match the workers, and those of the strategies that it is made of, with numbers that would do.
/// Source: Narayanan et al., Megatron-LM on GPU clusters, SC21; Zhao et al., PyTorch FSDP, VLDB 2023.
Plan hybrid(const StrategyInput& input) {
  const bool mesh_of_replicas = input.spec.options.count("pipeline") == 0 && input.spec.options.count("tensor") == 0 && input.spec.options.count("sharded") > 0;
  if (mesh_of_replicas)
    require_own_options(input.spec, {"data", "sharded", "level", "overlap", "bucket", "unit", "prefetch", "reshard", "recompute", "collective"}, without_stages());
  else
    require_own_options(input.spec, {"data", "pipeline", "tensor", "sharded", "level", "schedule", "micro", "chunks", "stages", "balance", "recompute", "batch-norm", "split", "sequence"},
                        with_stages(input));
  const auto sizes = sizes_of(input);
  if (input.workers == 1) return alone(input);
  if (mesh_of_replicas && sizes.sharded > 1) return sharded_plan(input, sizes.sharded);
  require_level(input.spec, sizes);
  if (const auto balance = input.spec.options.find("balance"); balance != input.spec.options.end() && balance->second.starts_with("pipedream"))
    throw Error(Code::invalid_argument, fmt::format("[hybrid] the mesh says how many stages there are, and replicas of each; got balance={}, expected time, flops, count or memory",
                                                    balance->second));
  const auto schedule = input.spec.options.find("schedule");
  if (schedule != input.spec.options.end() && sizes.sharded * sizes.tensor > 1 && !builtin_pipeline_schedules().at(schedule->second).make.synchronous)
    throw Error(Code::unsupported, fmt::format("[hybrid] unsupported: shards and parts of asynchronous stages; got schedule={} with sharded={},tensor={}, expected 1 of both, or a synchronous "
                                               "schedule", schedule->second, sizes.sharded, fmt::join(sizes.parts, "x")));
  const auto form = [&](const StrategyInput& each) {
    auto plan = pipeline_by_options(each, sizes.pipeline, sizes.data * sizes.sharded);
    plan.replicas = sizes.data;
    plan.shards = sizes.sharded;
    plan.parts = sizes.parts;
    return plan;
  };
  if (sizes.tensor == 1) {
    for (const auto* word : {"split", "sequence"})
      if (input.spec.options.count(word) > 0)
        throw Error(Code::invalid_argument, fmt::format("[hybrid] {} is an option of axis tensor; got {}={} with tensor=1, expected tensor=2 or more, or no {}", word, word,
                                                        input.spec.options.at(word), word));
    return pipeline_plan(input, form(input));
  }
  const auto axes = split_by_options(input, sizes.parts, "tensor");
  const auto part = split_graph(input.graph, axes, 0);
  const auto of = of_part(input, part);
  auto plan = form(of);
  if (plan.deferred_statistics)
    throw Error(Code::unsupported, "[hybrid] unsupported: statistics of split maps that are updated once a step; got batch-norm=deferred with axis tensor, expected batch-norm=micro");
  plan.split = split_words(axes);
  return pipeline_plan(of, plan);
}

}  // namespace ddl
