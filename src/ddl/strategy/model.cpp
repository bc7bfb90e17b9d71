#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/own_options.h"
#include "ddl/strategy/pipeline/schedules.h"
#include "ddl/strategy/pipeline_options.h"
#include "ddl/strategy/pipeline_tasks/pipeline_plan.h"

namespace ddl {

/// Layers over workers, the whole batch through one after the other: whoever does not compute waits.
/// Options: stages=3/5/2 or balance=time|flops|count|memory, recompute=never|always.
Plan model_parallel(const StrategyInput& input) {
  require_own_options(input.spec, {"stages", "balance", "recompute"});
  require_layers(input, {input.workers}, 1);
  const auto costs = costs_of(input, input.workers, (input.batch + input.micro_batches - 1) / input.micro_batches);
  Pipeline form;
  form.micro_batches = input.micro_batches;
  form.order = gpipe().order({input.workers, input.micro_batches});
  form.recompute = recompute_option(input);
  PartitionInput wanted{costs, input.workers};
  wanted.in_flight = [&](int, int) { return static_cast<double>(input.micro_batches); };
  form.cuts = cut(input, wanted);
  return pipeline_plan(input, form);
}

}  // namespace ddl
