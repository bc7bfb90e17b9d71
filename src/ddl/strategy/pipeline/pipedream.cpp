#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/strategy/pipeline/common.h"

namespace ddl {
namespace {

PipelineOrder order(const PipelineShape& shape) {
  require_shape("pipedream", shape, 1, 1);
  if (shape.micro_batches != 1)
    throw Error(Code::invalid_argument, fmt::format("[pipeline] micro-batches of pipedream, which keeps the pipeline full with whole batches; got {}, "
                                                    "expected 1 (pipedream-2bw takes {} or more)", shape.micro_batches, shape.workers));
  auto all = empty_order(shape);
  for (int worker = 0; worker < shape.workers; ++worker)
    all.actions[static_cast<std::size_t>(worker)] = {{Pass::forward, worker, 0, shape.workers - 1 - worker}, {Pass::backward, worker, 0}};
  return all;
}

PipelineOrder replicated(const std::vector<int>& replicas, int micro_batches) {
  return in_endless_rounds(replicas, micro_batches, [&](int stage) { return in_flight_1f1b(replicas, stage) - 1; });
}

Bubble bubble(const PipelineShape&, const PassSeconds&) { return {0}; }

int batches_in_flight(const PipelineShape& shape, int worker) { return shape.workers - worker; }

/// Updates follow batches, and no forward runs further ahead than this.
int staleness(const PipelineOrder& order, int worker) {
  int furthest = 0;
  for (const Action& action : order.actions.at(static_cast<std::size_t>(worker))) furthest = std::max(furthest, action.ahead);
  return furthest;
}

}  // namespace

/// Asynchronous 1F1B: worker w does the forward of the batch P-1-w steps ahead, then the backward of this one, then its update.
/// Weights: weight stashing. A forward takes the newest version that its worker has, and the backward of the batch takes the same:
///          worker w keeps P-w versions, and its gradients are P-1-w updates late. Without vertical sync, the paper's option,
///          a batch meets different versions on different workers: w(t+1) = w(t) - lr * grad f(w_1(t-P+1), …, w_P(t)).
/// Bubble:  none once the pipeline is full.
/// Held:    P-w batches on worker w.
/// Replicas: 1F1B-RR, PipeDream's hybrid. Of R_s workers of stage s each has every R_s-th micro-batch of a batch, as many of each batch, and runs as many forwards ahead
///          as 1F1B's replicas do, through the ends of batches. A batch is one step of all stages alike: its gradient is added up over a stage's workers, then all of them
///          update. (PipeDream's own stage of R workers updates once in R minibatches, one of a single worker after each.) A batch is computed with the weights that all
///          of it can have: as many updates old as its first forward is ahead.
/// Errors:  invalid_argument for more than one chunk or micro-batch; with replicas, for micro-batches that they cannot share alike.
/// Source:  Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019, sections 3.2 and 3.3.
PipelineSchedule pipedream() {
  return {.order = order, .synchronous = false, .bubble = bubble, .in_flight = batches_in_flight,
          .staleness = staleness, .replicated = replicated};
}

}  // namespace ddl
