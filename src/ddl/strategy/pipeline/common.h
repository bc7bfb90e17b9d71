#pragma once

#include <functional>
#include <string_view>

#include "ddl/strategy/pipeline/schedules.h"

namespace ddl {

/// At least one worker, one micro-batch, and as many chunks as the schedule `name` takes; `most_chunks` of 0 is no limit.
/// Errors: invalid_argument with what would do.
void require_shape(std::string_view name, const PipelineShape& shape, int least_chunks, int most_chunks);

/// Micro-batches 0 … m-1 through one stage: `warm_up` forwards, then one forward and one backward in turn, then the backwards
/// that are left.
std::vector<Action> in_turn(int stage, int micro_batches, int warm_up);

/// Stages with so many workers each, which take micro-batches in turn; each worker does its own in_turn() with `warm_up` of its stage.
/// Errors: invalid_argument where a worker would have none.
PipelineOrder in_rounds(const std::vector<int>& replicas, int micro_batches, const std::function<int(int stage)>& warm_up);

/// The same of an asynchronous order: each worker's 1F1B goes on from step to step, `warm_up` forwards ahead of its backwards.
/// Errors: invalid_argument where the replicas of a stage would not have as many micro-batches each, with numbers that would do.
PipelineOrder in_endless_rounds(const std::vector<int>& replicas, int micro_batches, const std::function<int(int stage)>& warm_up);

/// The micro-batches that each worker of a stage has in flight for nobody to wait once the pipeline is full, where every stage takes as many units as it has workers: as
/// many together as there are workers from this stage on, and of each later stage of R workers R-1 more, since a micro-batch may come to one that has just begun another.
int in_flight_1f1b(const std::vector<int>& replicas, int stage);

/// Of one idle time and one busy time per step.
inline double idle_fraction(double idle, double busy) { return idle / (idle + busy); }

/// Seconds that each worker computes in a step.
inline double busy_seconds(const PipelineShape& shape, const PassSeconds& seconds) {
  return static_cast<double>(shape.micro_batches) * shape.chunks * seconds.sum();
}

/// A looped placement without actions, for a schedule to fill.
inline PipelineOrder empty_order(const PipelineShape& shape) {
  return {looped_placement(shape), std::vector<std::vector<Action>>(static_cast<std::size_t>(shape.workers))};
}

}  // namespace ddl
