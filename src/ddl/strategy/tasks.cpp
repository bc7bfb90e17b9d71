#include "ddl/strategy/tasks.h"

#include <utility>

#include "ddl/core/error.h"

namespace ddl {

int add(Role& role, Task task) {
  role.tasks.push_back(std::move(task));
  return static_cast<int>(role.tasks.size()) - 1;
}

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

Task collective(Goal goal, Cargo cargo, int group, std::string label) {
  Task task;
  task.kind = TaskKind::collective;
  task.stream = Stream::communication;
  task.label = std::move(label);
  task.goal = goal;
  task.cargo = cargo;
  task.group = group;
  return task;
}

Task collective(Goal goal, Cargo cargo, int group, const Role& role, int bucket, std::string label) {
  auto task = collective(goal, cargo, group, std::move(label));
  task.bucket = bucket;
  task.bytes = role.buckets[static_cast<std::size_t>(bucket)].bytes;
  return task;
}

Task reduction(Role& role, int bucket, int group) {
  auto reduce = collective(Goal::all_reduce, Cargo::gradients, group, role, bucket, fmt::format("all-reduce {}", bucket));
  role.holds.buckets += reduce.bytes;
  return reduce;
}

Task control(const StrategyInput& input, int backward, const std::vector<int>& reductions) {
  auto task = collective(Goal::all_reduce, Cargo::control, 0, "control");
  task.bytes = 3 * sizeof(double);
  task.after = {backward};
  if (input.whole_gradient) task.after.insert(task.after.end(), reductions.begin(), reductions.end());
  return task;
}

Task update(int bucket, std::vector<int> after) {
  Task task;
  task.kind = TaskKind::update;
  task.label = bucket == kNone ? "update" : fmt::format("update {}", bucket);
  task.bucket = bucket;
  task.after = std::move(after);
  return task;
}

std::vector<int> append_updates(const StrategyInput& input, Role& role, int backward, int reductions) {
  std::vector<int> numbers;
  const auto count = static_cast<int>(role.buckets.size());
  for (int b = 0; b < count; ++b) {
    std::vector<int> after{backward};
    for (int other = 0; other < count && reductions != kNone; ++other)
      if (other == b || input.whole_gradient) after.push_back(reductions + other);
    numbers.push_back(add(role, update(b, std::move(after))));
  }
  return numbers;
}

}  // namespace ddl
