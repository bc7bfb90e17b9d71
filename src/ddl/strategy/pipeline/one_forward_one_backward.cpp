#include <algorithm>

#include "ddl/strategy/pipeline/common.h"

namespace ddl {
namespace {

PipelineOrder order(const PipelineShape& shape) {
  require_shape("1f1b", shape, 1, 1);
  auto all = empty_order(shape);
  for (int worker = 0; worker < shape.workers; ++worker)
    all.actions[static_cast<std::size_t>(worker)] =
        in_turn(worker, shape.micro_batches, std::min(shape.micro_batches, shape.workers - 1 - worker));
  return all;
}

Bubble bubble(const PipelineShape& shape, const PassSeconds& seconds) {
  return {idle_fraction((shape.workers - 1) * seconds.sum(), busy_seconds(shape, seconds))};
}

int in_flight(const PipelineShape& shape, int worker) { return std::min(shape.micro_batches, shape.workers - worker); }

}  // namespace

/// Worker w does P-1-w forwards to warm up, then one forward and one backward in turn, then the backwards that are left: as long a
/// step as GPipe's, with less held. Also known as PipeDream-Flush.
/// Bubble:  (P-1) / (m+P-1), for any F, B, W and m. Narayanan et al. state (P-1)/m, relative to busy time.
/// Held:    min(m, P-w) micro-batches on worker w.
/// Errors:  invalid_argument for more than one chunk.
/// Source:  Fan et al., "DAPPLE", PPoPP 2021; Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021,
///          section 3.2 and, for the bubble, "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021, section 2.2.1.
PipelineSchedule one_forward_one_backward() { return {.order = order, .bubble = bubble, .in_flight = in_flight}; }

}  // namespace ddl
