#include <algorithm>

#include "ddl/strategy/pipeline/common.h"
#include "ddl/strategy/pipeline/v_shape.h"

namespace ddl {
namespace {

std::vector<Action> worker_actions(const PipelineShape& shape, int worker) {
  // Below it, the pipeline does not fill: of fewer micro-batches, the first ones.
  const int micro_batches = std::max(shape.micro_batches, 2 * shape.workers);
  const int behind = shape.workers - 1 - worker;
  VActions actions(shape, worker);
  // Fill: there, then there and back, then the first backwards, whose weights' gradients fill what would be a wait.
  for (int i = 0; i < 2 * behind; ++i) actions.forward(0);
  for (int i = 0; i <= worker; ++i) {
    actions.forward(0);
    actions.forward(1);
  }
  for (int i = 0; i < behind; ++i) {
    actions.backward_input(1);
    actions.backward_weight(1);
    actions.forward(1);
  }
  // Steady: forward of one chunk with backward of the other.
  for (int i = 0; i < micro_batches - 2 * shape.workers + worker + 1 && !actions.complete(); ++i) {
    actions.forward(0);
    actions.backward(1);
    actions.forward(1);
    actions.backward(0);
  }
  for (int i = 0; i < behind && !actions.complete(); ++i) {
    actions.backward(1);
    actions.forward(1);
    actions.backward(0);
  }
  if (actions.complete()) return actions.take();
  // Drain: from half of it on, weights' gradients are put off to where the worker would wait.
  for (int i = 0; i < 2 * (worker + 1); ++i) {
    const int chunk = 1 - i % 2;
    if (i <= worker) {
      actions.backward(chunk);
    } else {
      actions.backward_input(chunk);
    }
  }
  for (int i = 0; i < behind; ++i) {
    actions.oldest_backward_weight();
    actions.backward_input(0);
  }
  while (actions.owes()) actions.oldest_backward_weight();
  return actions.take();
}

PipelineOrder order(const PipelineShape& shape) { return v_order("dualpipev", shape, worker_actions); }

Bubble bubble(const PipelineShape& shape, const PassSeconds& seconds) {
  const double each = seconds.forward + seconds.backward_input - std::min(seconds.forward, seconds.backward_weight);
  return {idle_fraction((shape.workers - 1) * each, busy_seconds(shape, seconds)),
          shape.workers == 1 || (shape.micro_batches >= 2 * shape.workers && seconds.backward_input <= seconds.forward)};
}

int in_flight(const PipelineShape& shape, int worker) {
  return std::min({2 * shape.micro_batches, shape.micro_batches + worker + 1, 2 * shape.workers + 1});
}

}  // namespace

/// DualPipe cut in half: of its two directions, each with all parameters, one is left, there and back over half the workers. In the
/// middle of a step forward of one chunk and backward of the other take turns, which DeepSeek overlap with each other's transfers; here
/// they follow one another.
/// Bubble:  x / (2m(F+B+W) + x) with x = (P-1)(F+B-min(F, W)), for m >= 2P and B <= F; more with B > F. That is of this plain order, and
///          ours. DeepSeek publish x = (P-1)(F&B + (B+W) - 3W), P half of theirs, with F&B a pair done as one block that passes on both
///          results at its end; it holds so for F = B. With F = B = W and nothing overlapped, F&B = F+B+W, that is twice as much.
/// Held:    2P+1 pairs of chunk and micro-batch; with few micro-batches min(2m, m+w+1) on worker w.
/// Errors:  invalid_argument unless a worker has two chunks.
/// Source:  DeepSeek-AI, "DeepSeek-V3 Technical Report" (arXiv 2412.19437), 2024, section 3.2.1; github.com/deepseek-ai/DualPipe; cut in
///          half as by Qi et al., "DualPipe could be better without the Dual", 2025; order as in PyTorch's ScheduleDualPipeV.
PipelineSchedule dualpipe_v() {
  return {.order = order, .least_chunks = 2, .most_chunks = 2, .splits_backward = true, .bubble = bubble, .in_flight = in_flight};
}

}  // namespace ddl
