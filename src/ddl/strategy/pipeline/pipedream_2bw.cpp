#include <fmt/ranges.h>

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

int staleness(const PipelineOrder& order, int) { return order.stages() == 1 ? 0 : 1; }

PipelineOrder replicated(const std::vector<int>& replicas, int micro_batches) {
  for (int stage = 0; stage < static_cast<int>(replicas.size()); ++stage) {
    const int own = replicas[static_cast<std::size_t>(stage)], ahead = in_flight_1f1b(replicas, stage) - 1;
    if (micro_batches / own < ahead)
      throw Error(Code::invalid_argument,
                  fmt::format("[pipeline] micro-batches of pipedream-2bw with stages of {} workers, for two versions of the weights to be enough; got {}, expected {} or more",
                              fmt::join(replicas, "/"), micro_batches, ahead * own));
  }
  return in_endless_rounds(replicas, micro_batches, [&](int stage) { return in_flight_1f1b(replicas, stage) - 1; });
}

}  // namespace

/// 1F1B without a flush between steps: worker w does the first P-1-w forwards of the next batch before the last backwards of this one.
/// Weights: double-buffered. Batch t is computed with the version before the newest, that of t-1 updates, on every worker alike, those
///          that would have a newer one included: w(t+1) = w(t) - lr * grad f(w(t-1)). Two versions suffice because m >= P keeps forwards
///          from running further than into the next batch. One worker has nothing to wait for, and keeps one.
/// Bubble:  none once the pipeline is full.
/// Held:    P-w micro-batches on worker w.
/// Replicas: as pipedream's, in as many micro-batches as keep forwards from running further than into the next batch.
/// Errors:  invalid_argument for more than one chunk and fewer micro-batches than that.
/// Source:  Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021, section 3.1.
PipelineSchedule pipedream_2bw() {
  return {.order = order, .synchronous = false, .bubble = bubble, .in_flight = in_flight, .staleness = staleness, .replicated = replicated};
}

}  // namespace ddl
