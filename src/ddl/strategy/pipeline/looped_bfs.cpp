#include "ddl/strategy/pipeline/common.h"

namespace ddl {
namespace {

PipelineOrder order(const PipelineShape& shape) {
  require_shape("looped-bfs", shape, 1, 0);
  auto all = empty_order(shape);
  for (int worker = 0; worker < shape.workers; ++worker) {
    auto& actions = all.actions[static_cast<std::size_t>(worker)];
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      for (int i = 0; i < shape.micro_batches; ++i) actions.push_back({Pass::forward, chunk * shape.workers + worker, i});
    for (int chunk = shape.chunks - 1; chunk >= 0; --chunk)
      for (int i = shape.micro_batches - 1; i >= 0; --i) actions.push_back({Pass::backward, chunk * shape.workers + worker, i});
  }
  return all;
}

Bubble bubble(const PipelineShape& shape, const PassSeconds& seconds) {
  return {idle_fraction((shape.workers - 1) * seconds.sum(), busy_seconds(shape, seconds)),
          shape.chunks == 1 || shape.micro_batches >= shape.workers};
}

int in_flight(const PipelineShape& shape, int) { return shape.chunks * shape.micro_batches; }

}  // namespace

/// GPipe over v chunks a worker: all micro-batches through a chunk before any goes through the next, and back, latest first. A chunk's
/// weights are needed, and its gradients complete, in one stretch of time: what the paper joins with fully sharded data parallelism.
/// Bubble:  (P-1) / (mv+P-1), for any F, B, W and m >= P. The paper states (P-1)/(mv), relative to busy time. With m < P and v > 1
///          workers also wait for a micro-batch to come round.
/// Held:    mv pairs of chunk and micro-batch.
/// Errors:  invalid_argument for sizes below 1.
/// Source:  Lamy-Poirier, "Breadth-First Pipeline Parallelism", MLSys 2023 (arXiv 2211.05953).
PipelineSchedule looped_bfs() { return {.order = order, .most_chunks = 0, .bubble = bubble, .in_flight = in_flight}; }

}  // namespace ddl
