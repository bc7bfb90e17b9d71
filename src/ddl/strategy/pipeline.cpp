#include "ddl/strategy/builtin.h"
#include "ddl/strategy/own_options.h"
#include "ddl/strategy/pipeline_by_options.h"
#include "ddl/strategy/pipeline_tasks/pipeline_plan.h"

namespace ddl {

/// Layers over workers; the batch goes through in micro-batches, in the order of `schedule`.
/// Asynchronous orders (pipedream, pipedream-2bw) train with weights that are some updates old, each worker with its own (Role::staleness).
/// Stages may have several workers each, which take micro-batches in turn (gpipe, 1f1b, pipedream, pipedream-2bw): `replicas` of each, or as balance=pipedream finds best.
/// Options: schedule=1f1b, micro=4 a worker, chunks=1 (2 of those that need two), replicas=2/1, stages=3/5/2 or
/// balance=time|flops|count|memory|pipedream[bandwidth=8Gbps, machines], recompute=never|always|except-last, batch-norm=micro|deferred.
/// Errors: invalid_argument for numbers that do not go together, with those that would.
/// Source:  of each order, strategy/pipeline/.
Plan pipeline(const StrategyInput& input) {
  require_own_options(input.spec, {"schedule", "micro", "chunks", "replicas", "stages", "balance", "bandwidth", "machines", "recompute", "batch-norm"});
  return pipeline_plan(input, pipeline_by_options(input, input.workers, 1));
}

}  // namespace ddl
