#include "ddl/strategy/common.h"

namespace ddl {

std::vector<Task> compute_tasks(const StrategyInput& input) {
  std::vector<Task> tasks(3);
  const double forward = static_cast<double>(input.graph.flops()) * static_cast<double>(input.local_batch);
  tasks[0].kind = TaskKind::load;
  tasks[0].label = "load";
  tasks[1].kind = TaskKind::forward;
  tasks[1].label = "forward";
  tasks[1].after = {0};
  tasks[1].flops = forward;
  tasks[kBackwardTask].kind = TaskKind::backward;
  tasks[kBackwardTask].label = "backward";
  tasks[kBackwardTask].after = {1};
  // One product for the gradient of the input, one for that of the weights.
  tasks[kBackwardTask].flops = 2 * forward;
  return tasks;
}

Holdings holdings(const StrategyInput& input) {
  const std::int64_t parameters = input.graph.parameters() * input.element_bytes;
  Holdings holds;
  holds.parameters = holds.gradients = holds.optimizer = parameters;
  holds.parameters += input.graph.frozen_parameters() * input.element_bytes;
  holds.activations = input.graph.kept_elements() * input.local_batch * input.element_bytes;
  return holds;
}

}  // namespace ddl
