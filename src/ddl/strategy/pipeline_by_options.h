#pragma once

#include "ddl/strategy/builtin.h"
#include "ddl/strategy/pipeline_tasks/pipeline_plan.h"

namespace ddl {

/// As the options schedule, micro, chunks, replicas, stages, balance, recompute and batch-norm say, of so many places, at each of which the batch is divided among so
/// many workers; Pipeline::replicas, shards, parts and split are for the caller to fill in.
/// Errors: invalid_argument and unsupported for numbers that do not go together, with those that would.
Pipeline pipeline_by_options(const StrategyInput& input, int places, int abreast);

}  // namespace ddl
