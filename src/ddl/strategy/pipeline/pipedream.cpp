#include "ddl/core/error.h"
#include "ddl/strategy/pipeline/common.h"

namespace ddl {
namespace {

int behind(const PipelineShape& shape, int worker) { return shape.workers - 1 - worker; }

PipelineOrder order(const PipelineShape& shape) {
  require_shape("pipedream", shape, 1, 1);
  if (shape.micro_batches != 1)
    throw Error(Code::invalid_argument, fmt::format("[pipeline] micro-batches of pipedream, which keeps the pipeline full with whole batches; got {}, "
                                                    "expected 1 (pipedream-2bw takes {} or more)", shape.micro_batches, shape.workers));
  auto all = empty_order(shape);
  for (int worker = 0; worker < shape.workers; ++worker)
    all.actions[static_cast<std::size_t>(worker)] = {{Pass::forward, worker, 0, behind(shape, worker)}, {Pass::backward, worker, 0}};
  return all;
}

Bubble bubble(const PipelineShape&, const PassSeconds&) { return {0}; }

int batches_in_flight(const PipelineShape& shape, int worker) { return behind(shape, worker) + 1; }

}  // namespace

/// Asynchronous 1F1B: worker w does the forward of the batch P-1-w steps ahead, then the backward of this one, then its update.
/// Weights: weight stashing. A forward takes the newest version that its worker has, and the backward of the batch takes the same:
///          worker w keeps P-w versions, and its gradients are P-1-w updates late. Without vertical sync, the paper's option,
///          a batch meets different versions on different workers: w(t+1) = w(t) - lr * grad f(w_1(t-P+1), …, w_P(t)).
/// Bubble:  none once the pipeline is full.
/// Held:    P-w batches on worker w.
/// Errors:  invalid_argument for more than one chunk or micro-batch.
/// Source:  Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019, sections 3.2 and 3.3.
PipelineSchedule pipedream() {
  return {.order = order, .synchronous = false, .bubble = bubble, .in_flight = batches_in_flight,
          .weight_versions = batches_in_flight, .staleness = behind};
}

}  // namespace ddl
