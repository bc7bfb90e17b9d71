#include "ddl/strategy/common.h"

#include <utility>

#include "ddl/core/error.h"
#include "ddl/strategy/stages.h"

namespace ddl {

std::int64_t local_batch(const StrategyInput& input, int shares) { return (input.batch + shares - 1) / shares; }

std::vector<Task> compute_tasks(const StrategyInput& input) {
  if (input.micro_batches < 1)
    throw Error(Code::invalid_argument, fmt::format("[{}] micro-batches; got {}, expected 1 or more", input.spec.name, input.micro_batches));
  std::vector<Task> tasks(1);
  tasks[0].kind = TaskKind::load;
  tasks[0].label = "load";
  const double samples = static_cast<double>(local_batch(input, input.workers)) / input.micro_batches;
  for (int micro = 0; micro < input.micro_batches; ++micro) {
    const auto suffix = input.micro_batches == 1 ? "" : fmt::format(" {}", micro);
    Task forward;
    forward.kind = TaskKind::forward;
    forward.label = "forward" + suffix;
    forward.after = {static_cast<int>(tasks.size()) - 1};
    forward.micro_batch = micro;
    forward.flops = static_cast<double>(input.graph.flops()) * samples;
    Task backward;
    backward.kind = TaskKind::backward;
    backward.label = "backward" + suffix;
    backward.after = {static_cast<int>(tasks.size())};
    backward.micro_batch = micro;
    // One product for the gradient of the input, one for that of the weights.
    backward.flops = 2 * forward.flops;
    tasks.push_back(std::move(forward));
    tasks.push_back(std::move(backward));
  }
  return tasks;
}

Plan replicas(const StrategyInput& input) {
  Plan plan;
  plan.strategy = input.spec.name;
  plan.mesh.axes = {{"data", input.workers}};
  plan.stages = make_stages(input.graph, {0});
  plan.micro_batches = input.micro_batches;
  Role role{"worker", 0, input.workers, compute_tasks(input), holdings(input)};
  role.stages = {0};
  plan.roles = {std::move(role)};
  return plan;
}

Holdings holdings(const StrategyInput& input) {
  const std::int64_t parameters = input.graph.parameters() * input.element_bytes;
  Holdings holds;
  holds.parameters = holds.gradients = parameters;
  holds.parameters += input.graph.frozen_parameters() * input.element_bytes;
  holds.optimizer = parameters * input.optimizer_tensors;
  const std::int64_t samples = (local_batch(input, input.workers) + input.micro_batches - 1) / input.micro_batches;
  holds.activations = input.graph.kept_elements() * samples * input.element_bytes;
  return holds;
}

}  // namespace ddl
