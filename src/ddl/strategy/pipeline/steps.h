#pragma once

#include <limits>

#include "ddl/strategy/pipeline/order.h"

namespace ddl {

/// What a worker does once before step 0 of an asynchronous order: the forwards, of batches 0, 1, …, for which the steps that would
/// have done them lie before the first. An action's `ahead` is its batch. Of a synchronous order: nothing.
/// `steps` batches are to come; forwards of others are left out.
std::vector<Action> warm_up(const PipelineOrder& order, int worker, int steps = std::numeric_limits<int>::max());

/// What a worker does in step `step` of `steps`: as in `order`, less the forwards of batches from `steps` on, which do not exist.
std::vector<Action> step_actions(const PipelineOrder& order, int worker, int step, int steps);

/// `steps` steps one after the other without a barrier, warm-up included, as one order: batch b's micro-batch i becomes micro-batch
/// bm + i, and nothing is ahead. For timing.h, and for proofs about what runs between what.
PipelineOrder unroll(const PipelineOrder& order, int micro_batches, int steps);

}  // namespace ddl
