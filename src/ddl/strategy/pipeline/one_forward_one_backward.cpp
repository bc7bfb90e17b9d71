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

PipelineOrder replicated(const std::vector<int>& replicas, int micro_batches) {
  return in_rounds(replicas, micro_batches, [&](int stage) { return in_flight_1f1b(replicas, stage) - 1; });
}

int in_flight(const PipelineShape& shape, int worker) { return std::min(shape.micro_batches, shape.workers - worker); }

}  // namespace

/// Worker w does P-1-w forwards to warm up, then one forward and one backward in turn, then the backwards that are left: as long a
/// step as GPipe's, with less held. Also known as PipeDream-Flush.
/// Bubble:  (P-1) / (m+P-1), for any F, B, W and m. Narayanan et al. state (P-1)/m, relative to busy time.
/// Held:    min(m, P-w) micro-batches on worker w.
/// Replicas: of R_s workers of stage s each does ceil((R_s + sum of later stages' 2R - 1) / R_s) - 1 forwards to warm up, of micro-batches of its own: PipeDream's
///          1F1B-RR (Narayanan et al., SOSP 2019, section 3.2) with a flush. What PipeDream keeps in flight at its first stage, ceil(all workers / R_0) for each of
///          its workers, is as much where later stages have one worker each, else too little: ReplicatedOrders.PipeDreamsNumberInFlightIsTooFew.
/// Errors:  invalid_argument for more than one chunk.
/// Source:  Fan et al., "DAPPLE", PPoPP 2021; Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021,
///          section 3.2 and, for the bubble, "Efficient Large-Scale Language Model Training on GPU Clusters", SC 2021, section 2.2.1.
PipelineSchedule one_forward_one_backward() { return {.order = order, .bubble = bubble, .in_flight = in_flight, .replicated = replicated}; }

}  // namespace ddl
