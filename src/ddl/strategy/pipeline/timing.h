#pragma once

#include <vector>

#include "ddl/strategy/pipeline/schedules.h"

namespace ddl {

/// What an order costs, where only passes and the way between workers take time.
struct PipelineCosts {
  std::vector<PassSeconds> of_stage;
  double transfer_seconds = 0;  ///< from a pass to the next stage's, where that is another worker's; links are never busy
};

PipelineCosts uniform_costs(int stages, const PassSeconds& each, double transfer_seconds = 0);

struct WorkerTiming {
  double begin_seconds = 0;  ///< of its first action
  double end_seconds = 0;    ///< of its last
  double busy_seconds = 0;
  int in_flight = 0;         ///< the most (chunk, micro-batch) pairs at once between their forward's start and their backward's end

  /// Waits between its first action and its last.
  double idle_seconds() const { return end_seconds - begin_seconds - busy_seconds; }
};

struct PipelineTiming {
  double makespan_seconds = 0;
  std::vector<WorkerTiming> workers;
  std::vector<int> in_flight_of_stage;

  double idle_seconds(int worker) const { return makespan_seconds - workers.at(static_cast<std::size_t>(worker)).busy_seconds; }
};

/// Runs an order in virtual time: each worker does its actions in turn, each as soon as what it needs is there. A forward needs that of
/// the stage before; a backward its own forward, and the gradient that the stage behind gives once it is done; the gradient of weights
/// that of the input. Orders of several steps go through unroll() first.
/// Cost:    O(actions).
/// Errors:  invalid_argument if workers end up waiting for each other, or for what nobody does: names who waits in which action for
///          which; and for stages without costs and micro-batches that are ahead.
PipelineTiming time_pipeline(const PipelineOrder& order, const PipelineCosts& costs);

/// Seconds from one step to the next once the pipeline is full, steps following each other without a barrier.
/// Errors:  as time_pipeline.
double step_seconds(const PipelineOrder& order, int micro_batches, const PipelineCosts& costs);

}  // namespace ddl
