#pragma once

#include "ddl/strategy/builtin.h"

namespace ddl {

/// Strategy `sharded` among groups of `shards` workers, which divides the workers, each group a replica of the others: parts are summed over replicas, too, once a step.
/// Axes "data" and "sharded", or "data" alone where there is one group. Reads the options of `sharded` from input.spec, whatever else is there.
/// Source: Zhao et al., PyTorch FSDP, VLDB 2023, section 3.2.2 (hybrid sharding).
Plan sharded_plan(const StrategyInput& input, int shards);

}  // namespace ddl
