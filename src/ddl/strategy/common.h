#pragma once

#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/strategy/builtin.h"

namespace ddl {

/// load, then forward and backward of a whole network on one worker, for each micro-batch. The last is the backward that
/// completes the gradients.
std::vector<Task> compute_tasks(const StrategyInput& input);

/// One role of `workers` along axis "data", each with the whole network: stages, roles and tasks of the network are filled in, nothing is exchanged.
Plan replicas(const StrategyInput& input);

/// Parameters, gradients, the optimizer's state and kept activations of a whole network on one worker.
Holdings holdings(const StrategyInput& input);

}  // namespace ddl
