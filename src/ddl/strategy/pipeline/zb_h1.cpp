#include <algorithm>

#include "ddl/strategy/pipeline/common.h"

namespace ddl {
namespace {

PipelineOrder order(const PipelineShape& shape) {
  require_shape("zb-h1", shape, 1, 1);
  auto all = empty_order(shape);
  for (int worker = 0; worker < shape.workers; ++worker) {
    auto& actions = all.actions[static_cast<std::size_t>(worker)];
    for (const Action& action : in_turn(worker, shape.micro_batches, std::min(shape.micro_batches, shape.workers - 1 - worker))) {
      if (is_forward(action.pass)) {
        actions.push_back(action);
        continue;
      }
      actions.push_back({Pass::backward_input, worker, action.micro_batch});
      // A worker nearer the end holds fewer forwards, so that it may owe the more weights' gradients within the same memory.
      if (action.micro_batch >= worker) actions.push_back({Pass::backward_weight, worker, action.micro_batch - worker});
    }
    for (int i = std::max(0, shape.micro_batches - worker); i < shape.micro_batches; ++i) actions.push_back({Pass::backward_weight, worker, i});
  }
  return all;
}

Bubble bubble(const PipelineShape& shape, const PassSeconds& seconds) {
  const double each = seconds.forward + seconds.backward_input - std::min(seconds.forward, seconds.backward_weight);
  return {idle_fraction((shape.workers - 1) * each, busy_seconds(shape, seconds)), shape.micro_batches >= shape.workers};
}

int in_flight(const PipelineShape& shape, int) { return std::min(shape.micro_batches, shape.workers); }

}  // namespace

/// 1F1B with backward split: gradients of weights, for which nobody waits, are put off to where 1F1B stands idle, worker w owing w of
/// them, so that no worker holds more than 1F1B's first.
/// Bubble:  x / (m(F+B+W) + x) with x = (P-1)(F+B-W), for m >= P and W <= F. With W > F, (P-1)B is left all the same: the first
///          worker has no more forwards that fit its memory while it waits for its first backward.
/// Held:    min(m, P) micro-batches on every worker, until their weights' gradient.
/// Errors:  invalid_argument for more than one chunk.
/// Source:  Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024 (arXiv 2401.10241), section 2.
PipelineSchedule zb_h1() { return {.order = order, .splits_backward = true, .bubble = bubble, .in_flight = in_flight}; }

}  // namespace ddl
