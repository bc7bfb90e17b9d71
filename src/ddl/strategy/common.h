#pragma once

#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/strategy/builtin.h"

namespace ddl {

inline constexpr int kBackwardTask = 2;

/// load, forward, backward of a whole network on one worker: tasks 0, 1 and kBackwardTask.
std::vector<Task> compute_tasks(const StrategyInput& input);

/// Parameters, gradients, momentum and kept activations of a whole network on one worker.
Holdings holdings(const StrategyInput& input);

}  // namespace ddl
