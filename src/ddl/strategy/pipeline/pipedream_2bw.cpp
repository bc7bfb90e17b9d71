#include "ddl/core/error.h"
#include "ddl/strategy/pipeline/common.h"

namespace ddl {
namespace {

PipelineOrder order(const PipelineShape& shape) {
  require_shape("pipedream-2bw", shape, 1, 1);
  if (shape.micro_batches < shape.workers)
    throw Error(Code::invalid_argument,
                fmt::format("[pipeline] micro-batches of pipedream-2bw with {} workers, for two versions of the weights to be enough; "
                            "got {}, expected {} or more", shape.workers, shape.micro_batches, shape.workers));
  auto all = empty_order(shape);
  for (int worker = 0; worker < shape.workers; ++worker)
    for (int i = 0; i < shape.micro_batches; ++i) {
      // 1F1B that goes on: where the step has no more forwards, those of the next begin.
      const int forward = i + shape.workers - 1 - worker;
      auto& actions = all.actions[static_cast<std::size_t>(worker)];
      actions.push_back({Pass::forward, worker, forward % shape.micro_batches, forward / shape.micro_batches});
      actions.push_back({Pass::backward, worker, i});
    }
  return all;
}

Bubble bubble(const PipelineShape&, const PassSeconds&) { return {0}; }

int in_flight(const PipelineShape& shape, int worker) { return shape.workers - worker; }

int weight_versions(const PipelineShape& shape, int) { return shape.workers == 1 ? 1 : 2; }

int staleness(const PipelineShape& shape, int) { return shape.workers == 1 ? 0 : 1; }

}  // namespace

/// 1F1B without a flush between steps: worker w does the first P-1-w forwards of the next batch before the last backwards of this one.
/// Weights: double-buffered. Batch t is computed with the version before the newest, that of t-1 updates, on every worker alike, those
///          that would have a newer one included: w(t+1) = w(t) - lr * grad f(w(t-1)). Two versions suffice because m >= P keeps forwards
///          from running further than into the next batch. One worker has nothing to wait for, and keeps one.
/// Bubble:  none once the pipeline is full.
/// Held:    P-w micro-batches on worker w.
/// Errors:  invalid_argument for more than one chunk and fewer micro-batches than workers.
/// Source:  Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021, section 3.1.
PipelineSchedule pipedream_2bw() {
  return {.order = order, .synchronous = false, .bubble = bubble, .in_flight = in_flight, .weight_versions = weight_versions, .staleness = staleness};
}

}  // namespace ddl
