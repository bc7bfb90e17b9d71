#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/strategy/pipeline/common.h"

namespace ddl {
namespace {

void require(const PipelineShape& shape) {
  require_shape("interleaved-1f1b", shape, 2, 0);
  const int below = shape.micro_batches / shape.workers * shape.workers;
  if (below != shape.micro_batches)
    throw Error(Code::invalid_argument,
                fmt::format("[pipeline] micro-batches of interleaved-1f1b are a multiple of its {} workers; got {}, expected {}{}", shape.workers,
                            shape.micro_batches, below == 0 ? "" : fmt::format("{} or ", below), below + shape.workers));
}

/// Forwards before the first backward: as far as the last chunk's first round, and for each worker behind this one another there and back.
int warm_up(const PipelineShape& shape, int worker) {
  return std::min((shape.chunks - 1) * shape.workers + 2 * (shape.workers - 1 - worker), shape.chunks * shape.micro_batches);
}

PipelineOrder order(const PipelineShape& shape) {
  require(shape);
  auto all = empty_order(shape);
  const int passes = shape.chunks * shape.micro_batches;
  for (int worker = 0; worker < shape.workers; ++worker) {
    // The k-th of either direction: P micro-batches go through each chunk in turn before the next P do.
    const auto pass = [&](Pass kind, int k) {
      const int round = k / shape.workers;
      const int chunk = is_forward(kind) ? round % shape.chunks : shape.chunks - 1 - round % shape.chunks;
      return Action{kind, chunk * shape.workers + worker, round / shape.chunks * shape.workers + k % shape.workers};
    };
    const int ahead = warm_up(shape, worker);
    for (int k = 0; k < passes + ahead; ++k) {
      auto& actions = all.actions[static_cast<std::size_t>(worker)];
      if (k < passes) actions.push_back(pass(Pass::forward, k));
      if (k >= ahead) actions.push_back(pass(Pass::backward, k - ahead));
    }
  }
  return all;
}

Bubble bubble(const PipelineShape& shape, const PassSeconds& seconds) {
  return {idle_fraction((shape.workers - 1) * seconds.sum(), busy_seconds(shape, seconds))};
}

int in_flight(const PipelineShape& shape, int worker) { return std::min(warm_up(shape, worker) + 1, shape.chunks * shape.micro_batches); }

}  // namespace

/// 1F1B over v chunks a worker: micro-batches go round the workers v times, P of them at a time, so that the pipeline fills and
/// drains in units of a chunk, not of all that a worker has. Every pass to the next stage crosses workers: v times the transfers.
/// Bubble:  (P-1) / (mv+P-1), for any F, B, W. The paper states (P-1)/(vm), relative to busy time.
/// Held:    (v-1)P + 2(P-1-w) + 1 pairs of chunk and micro-batch on worker w.
/// Errors:  invalid_argument for one chunk, and where P does not divide m.
/// Source:  Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", SC 2021, section 2.2.2.
PipelineSchedule interleaved_1f1b() {
  return {.order = order, .least_chunks = 2, .most_chunks = 0, .bubble = bubble, .in_flight = in_flight};
}

}  // namespace ddl
