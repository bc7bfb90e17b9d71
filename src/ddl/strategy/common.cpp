#include "ddl/strategy/common.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/core/text.h"
#include "ddl/core/units.h"
#include "ddl/nn/recompute_cuts.h"
#include "ddl/strategy/batch_shares.h"
#include "ddl/strategy/bucketing.h"
#include "ddl/strategy/pass_memory.h"
#include "ddl/strategy/stages.h"
#include "ddl/strategy/tasks.h"

namespace ddl {

std::int64_t size_option(const Spec& spec, const std::string& key, std::int64_t standard) {
  const auto found = spec.options.find(key);
  if (found == spec.options.end()) return standard;
  const auto size = unit_option(spec, key, found->second, parse_bytes).value;
  if (size <= 0) throw Error(Code::invalid_argument, fmt::format("[{}] {} is more than nothing; got '{}', expected a size, as 25MiB", spec.name, key, found->second));
  return size;
}

std::vector<std::int64_t> parameter_bytes(const StrategyInput& input) {
  std::vector<std::int64_t> bytes;
  for (const auto& spec : input.graph.parameter_specs()) bytes.push_back(spec.elements() * input.element_bytes);
  return bytes;
}

bool keeps_logits_alone(const StrategyInput& input) { return input.own_kernels && input.element_bytes == 4; }

std::int64_t longest_part(const StrategyInput& input, std::int64_t bytes, int parts) {
  return (bytes / input.element_bytes + parts - 1) / parts * input.element_bytes;
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
  const auto cap = tunes_buckets(input.spec) ? kBucketCap : size_option(input.spec, "bucket", kBucketCap);
  auto buckets = assign_buckets(parameter_bytes(input), gradient_order(input), std::min(cap, size_option(input.spec, "first-bucket", kFirstBucket)), cap);
  buckets.back().bytes += input.element_bytes;
  buckets.back().control = true;
  return buckets;
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

std::int64_t local_batch(const StrategyInput& input, int shares) { return most_samples(input.spec, input.batch, shares); }

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

/// Of a replica's backward.
PassMemory passes_of_replica(const StrategyInput& input, const std::set<int>& in_bucket) {
  const std::int64_t samples = (local_batch(input, input.workers) + input.micro_batches - 1) / input.micro_batches;
  const NetworkMemory network(input);
  if (!input.recompute) return network.passes(make_stages(input.graph, {0}), samples, in_bucket);
  const auto cuts = recompute_cuts(input.graph);
  return network.passes_in_segments(make_stages(input.graph, {cuts.begin(), cuts.end() - 1}), samples, in_bucket);
}

}  // namespace

Holdings in_buckets(const StrategyInput& input, Holdings holds) {
  std::set<int> all;
  for (int parameter = 0; parameter < static_cast<int>(input.graph.parameter_specs().size()); ++parameter) all.insert(parameter);
  holds.activations = passes_of_replica(input, all).later_peak;
  holds.gradients = 0;
  return holds;
}

Holdings holdings(const StrategyInput& input) {
  const std::int64_t parameters = input.graph.parameters() * input.element_bytes;
  Holdings holds;
  holds.parameters = parameters;
  holds.parameters += input.graph.frozen_parameters() * input.element_bytes;
  holds.optimizer = parameters * input.optimizer_tensors;
  const auto passes = passes_of_replica(input, {});
  holds.gradients = passes.gradients;
  holds.activations = input.micro_batches > 1 ? passes.later_peak : passes.first_peak - passes.gradients;
  return holds;
}

}  // namespace ddl
