#include "ddl/strategy/pipeline/common.h"

namespace ddl {
namespace {

PipelineOrder order(const PipelineShape& shape) {
  require_shape("gpipe", shape, 1, 1);
  auto all = empty_order(shape);
  for (int worker = 0; worker < shape.workers; ++worker) {
    auto& actions = all.actions[static_cast<std::size_t>(worker)];
    for (int i = 0; i < shape.micro_batches; ++i) actions.push_back({Pass::forward, worker, i});
    for (int i = 0; i < shape.micro_batches; ++i) actions.push_back({Pass::backward, worker, i});
  }
  return all;
}

Bubble bubble(const PipelineShape& shape, const PassSeconds& seconds) {
  return {idle_fraction((shape.workers - 1) * seconds.sum(), busy_seconds(shape, seconds))};
}

PipelineOrder replicated(const std::vector<int>& replicas, int micro_batches) {
  return in_rounds(replicas, micro_batches, [&](int) { return micro_batches; });
}

int in_flight(const PipelineShape& shape, int) { return shape.micro_batches; }

}  // namespace

/// Every forward, then every backward. The paper draws backwards latest micro-batch first; earliest first, as PyTorch has it, takes
/// the same time and holds as much.
/// Bubble:  (P-1) / (m+P-1), for any F, B, W and m. The paper's O((K-1)/(M+K-1)), of wall time as here.
/// Held:    m micro-batches.
/// Errors:  invalid_argument for more than one chunk.
/// Source:  Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", NeurIPS 2019, section 2.3.
PipelineSchedule gpipe() { return {.order = order, .bubble = bubble, .in_flight = in_flight, .replicated = replicated}; }

}  // namespace ddl
