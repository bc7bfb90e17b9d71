#include <algorithm>

#include "ddl/strategy/pipeline/common.h"
#include "ddl/strategy/pipeline/v_shape.h"

namespace ddl {
namespace {

std::vector<Action> worker_actions(const PipelineShape& shape, int worker) {
  const int workers = shape.workers;
  // What fills the pipeline; of fewer micro-batches, the first ones.
  const int micro_batches = std::max(shape.micro_batches, 2 * workers - 1);
  VActions actions(shape, worker);
  const auto both_parts = [&](int chunk) {
    actions.backward_input(chunk);
    actions.backward_weight(chunk);
  };
  // The first micro-batch is back on its way through the second chunks when this worker has done as many forwards of the first.
  int first_chunk = 2 * (workers - worker) - 1;
  for (int i = 0; i < first_chunk; ++i) actions.forward(0);
  for (int i = 0; i < worker; ++i, ++first_chunk) {
    actions.forward(1);
    actions.forward(0);
  }
  for (int i = 0; i < workers - worker; ++i) {
    actions.forward(1);
    both_parts(1);
  }
  // Steady: three passes of each chunk in turn.
  for (int second_chunk = workers; second_chunk < micro_batches && !actions.complete(); ++second_chunk) {
    if (first_chunk++ < micro_batches) actions.forward(0);
    both_parts(0);
    actions.forward(1);
    both_parts(1);
  }
  if (actions.complete()) return actions.take();
  // Drain: what others wait for first.
  for (int i = 0; i < worker; ++i) {
    actions.backward_input(0);
    actions.backward_input(1);
  }
  for (int i = 0; i < workers - worker; ++i) both_parts(0);
  for (int i = 0; i < worker; ++i) actions.backward_weight(1);
  for (int i = 0; i < worker; ++i) actions.backward_weight(0);
  return actions.take();
}

PipelineOrder order(const PipelineShape& shape) { return v_order("zbv", shape, worker_actions); }

Bubble bubble(const PipelineShape& shape, const PassSeconds& seconds) {
  const bool even = seconds.forward == seconds.backward_input && seconds.forward == seconds.backward_weight;
  return {0, shape.workers == 1 || (even && shape.micro_batches >= 2 * shape.workers - 1)};
}

int in_flight(const PipelineShape& shape, int worker) {
  return std::min({2 * shape.micro_batches, shape.micro_batches + worker + 1, 2 * shape.workers});
}

}  // namespace

/// ZB-V: the first worker has the first and the last stage, so that a micro-batch turns back where it came in, and 1F1B's memory is
/// enough for no bubble.
/// Bubble:  none for F = B = W and m >= 2P-1: worker w begins w forwards late, ends as late, and does not pause in between, so that steps
///          which follow each other without a barrier take 6mF each (one alone 6mF + (P-1)F). Else there is one, for which the paper
///          has no formula, and step_seconds() an answer.
/// Held:    2P pairs of chunk and micro-batch, as much as 1F1B's P micro-batches of both chunks; with few micro-batches
///          min(2m, m+w+1) on worker w.
/// Errors:  invalid_argument unless a worker has two chunks.
/// Source:  Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv 2401.10241), section 6.
PipelineSchedule zb_v() {
  return {.order = order, .least_chunks = 2, .most_chunks = 2, .splits_backward = true, .bubble = bubble, .in_flight = in_flight};
}

}  // namespace ddl
