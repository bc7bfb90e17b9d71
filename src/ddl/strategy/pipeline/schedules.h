#pragma once

#include "ddl/core/registry.h"
#include "ddl/strategy/pipeline/order.h"

namespace ddl {

/// What the passes of one micro-batch through one stage take.
struct PassSeconds {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;

  double backward() const { return backward_input + backward_weight; }
  double sum() const { return forward + backward(); }
};

/// The part of a step that a worker stands idle, of wall time: idle / (idle + busy). Papers tend to state idle / busy. Steps
/// follow each other without a barrier, each worker going on to the next as soon as its own is done; transfers take no time.
struct Bubble {
  double fraction = 0;
  /// Whether the order takes exactly that. Otherwise it is a bound from below; step_seconds() of timing.h has what the order takes.
  bool exact = true;
};

/// One order of micro-batches, and what to know of it.
struct PipelineSchedule {
  /// Errors: invalid_argument for shapes that it cannot do, naming those that it can.
  PipelineOrder (*order)(const PipelineShape& shape) = nullptr;
  int least_chunks = 1;
  int most_chunks = 1;              ///< 0: no limit
  /// Whether a step ends with the backward of its own batch's last micro-batch, and nothing of the next has begun.
  bool synchronous = true;
  /// Whether backward comes in two parts.
  bool splits_backward = false;
  /// As published, every stage taking the same time; where what is published is of another order (dualpipev), ours, with the reason.
  Bubble (*bubble)(const PipelineShape& shape, const PassSeconds& seconds) = nullptr;
  /// The most (chunk, micro-batch) pairs whose activations a worker holds at once, whatever its passes take.
  int (*in_flight)(const PipelineShape& shape, int worker) = nullptr;
  /// Updates of a worker's weights that its gradients have not seen, in an order of this schedule's: they are applied to version t and were computed with t - this,
  /// so that the worker keeps one version more than that.
  int (*staleness)(const PipelineOrder& order, int worker) = [](const PipelineOrder&, int) { return 0; };
  /// The same order of stages with so many workers each (PipelineOrder::replicas); none: it cannot. Errors: invalid_argument where a worker would have no
  /// micro-batch, or, of an asynchronous order, others of its stage more than it.
  PipelineOrder (*replicated)(const std::vector<int>& replicas, int micro_batches) = nullptr;
};

/// gpipe, 1f1b, interleaved-1f1b, looped-bfs, zb-h1, zbv, dualpipev, pipedream, pipedream-2bw.
Registry<PipelineSchedule> builtin_pipeline_schedules();

// Below, P workers, m micro-batches, v chunks; F, B, W are the seconds of a stage's forward, gradient of its input and of its
// weights; each in the file of its name.
PipelineSchedule gpipe();
PipelineSchedule one_forward_one_backward();
PipelineSchedule interleaved_1f1b();
PipelineSchedule looped_bfs();
PipelineSchedule zb_h1();
PipelineSchedule zb_v();
PipelineSchedule dualpipe_v();
PipelineSchedule pipedream();
PipelineSchedule pipedream_2bw();

}  // namespace ddl
