#include "ddl/strategy/common.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/strategy/stages.h"

namespace ddl {

std::int64_t size_option(const Spec& spec, const std::string& key, std::int64_t standard) {
  const auto found = spec.options.find(key);
  if (found == spec.options.end()) return standard;
  const auto size = parse_bytes(found->second).value;
  if (size <= 0) throw Error(Code::invalid_argument, fmt::format("[{}] {} must be positive; got '{}'", spec.name, key, found->second));
  return size;
}

std::vector<std::int64_t> parameter_bytes(const StrategyInput& input) {
  std::vector<std::int64_t> bytes;
  for (const auto& spec : input.graph.parameter_specs()) bytes.push_back(spec.elements() * input.element_bytes);
  return bytes;
}

std::vector<std::int64_t> bytes_in_the_making(const StrategyInput& input) {
  std::vector<std::int64_t> bytes;
  for (const auto& layer : input.graph.layers)
    for (const auto& spec : layer.parameters)
      if (spec.trainable) bytes.push_back(spec.elements() * input.element_bytes * (input.channels_last && layer.kind == LayerKind::conv2d && spec.shape.size() > 1 ? 3 : 1));
  return bytes;
}

std::int64_t most_in_the_making(const StrategyInput& input) {
  const auto bytes = bytes_in_the_making(input);
  return bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
}

std::int64_t logits_bytes(const StrategyInput& input, std::int64_t samples) {
  return elements_of(input.graph.layers.back().shape) * samples * input.element_bytes;
}

std::vector<int> gradient_order(const StrategyInput& input) {
  auto order = input.gradient_order;
  if (order.empty()) {
    order.resize(input.graph.parameter_specs().size());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  return order;
}

std::vector<Bucket> network_buckets(const StrategyInput& input) {
  constexpr std::int64_t kFirstBucket = std::int64_t{1} << 20;
  const auto cap = size_option(input.spec, "bucket", kBucketCap);
  auto buckets = assign_buckets(parameter_bytes(input), gradient_order(input), std::min(cap, size_option(input.spec, "first-bucket", kFirstBucket)), cap);
  buckets.back().bytes += input.element_bytes;
  buckets.back().control = true;
  return buckets;
}

int add(Role& role, Task task) {
  role.tasks.push_back(std::move(task));
  return static_cast<int>(role.tasks.size()) - 1;
}

Task reduction(Role& role, int bucket) {
  Task reduce;
  reduce.kind = TaskKind::collective;
  reduce.stream = Stream::communication;
  reduce.label = fmt::format("all-reduce {}", bucket);
  reduce.bucket = bucket;
  reduce.bytes = role.buckets[static_cast<std::size_t>(bucket)].bytes;
  reduce.group = 0;
  reduce.cargo = Cargo::gradients;
  role.holds.buckets += reduce.bytes;
  return reduce;
}

std::vector<int> append_updates(const StrategyInput& input, Role& role, int backward, int reductions) {
  std::vector<int> numbers;
  const auto count = static_cast<int>(role.buckets.size());
  for (int b = 0; b < count; ++b) {
    Task update;
    update.kind = TaskKind::update;
    update.label = fmt::format("update {}", b);
    update.bucket = b;
    update.after = {backward};
    for (int other = 0; other < count && reductions != kNone; ++other)
      if (other == b || input.whole_gradient) update.after.push_back(reductions + other);
    numbers.push_back(add(role, std::move(update)));
  }
  return numbers;
}

Plan alone(const StrategyInput& input) {
  auto one = input;
  one.spec = {"single", {}};
  auto plan = single(one);
  plan.strategy = input.spec.name;
  return plan;
}

int whole_option(const Spec& spec, const std::string& name, int otherwise, int low, int high) {
  const double number = number_option(spec, name, otherwise, low, high);
  if (number != static_cast<int>(number))
    throw Error(Code::invalid_argument, fmt::format("[{}] {}; got '{}', expected a whole number from {} to {}", spec.name, name, spec.options.at(name), low, high));
  return static_cast<int>(number);
}

std::string word_option(const Spec& spec, const std::string& name, const std::vector<std::string>& words) {
  const auto found = spec.options.find(name);
  if (found == spec.options.end()) return words.front();
  if (std::find(words.begin(), words.end(), found->second) == words.end())
    throw Error(Code::invalid_argument, fmt::format("[{}] {}; got '{}', expected one of: {}", spec.name, name, found->second, join(words, ", ")));
  return found->second;
}

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

namespace {

/// Of a replica when the backward of a micro-batch begins.
std::int64_t activation_bytes(const StrategyInput& input) {
  const std::int64_t samples = (local_batch(input, input.workers) + input.micro_batches - 1) / input.micro_batches;
  return input.graph.kept_elements() * samples * input.element_bytes + 3 * logits_bytes(input, samples);
}

}  // namespace

Holdings in_buckets(const StrategyInput& input, Holdings holds) {
  holds.activations = activation_bytes(input);
  holds.gradients = most_in_the_making(input);
  return holds;
}

Holdings holdings(const StrategyInput& input) {
  const std::int64_t parameters = input.graph.parameters() * input.element_bytes;
  Holdings holds;
  holds.parameters = parameters;
  holds.parameters += input.graph.frozen_parameters() * input.element_bytes;
  holds.optimizer = parameters * input.optimizer_tensors;
  holds.activations = activation_bytes(input);
  // When the last forward is done there are gradients of micro-batches before; when the last backward is done, all of them and nothing else.
  holds.gradients = input.micro_batches > 1 ? parameters + most_in_the_making(input) : 0;
  if (parameters > holds.gradients + holds.activations) {
    holds.gradients = parameters;
    holds.activations = 0;
  }
  return holds;
}

}  // namespace ddl
