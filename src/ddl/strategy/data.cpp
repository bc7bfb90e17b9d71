#include <algorithm>
#include <numeric>

#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/core/units.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"

namespace ddl {
namespace {

// PyTorch's own (kDefaultFirstBucketBytes, kDefaultBucketBytesCap in c10d/reducer.hpp, 2.13): a small first bucket
// starts communication early, the cap trades latency against overlap.
constexpr std::int64_t kFirstBucket = std::int64_t{1} << 20;
constexpr std::int64_t kBucketCap = std::int64_t{25} << 20;

std::int64_t size_option(const Spec& spec, const std::string& key, std::int64_t standard) {
  const auto found = spec.options.find(key);
  if (found == spec.options.end()) return standard;
  const auto size = parse_bytes(found->second).value;
  if (size <= 0) throw Error(Code::invalid_argument, fmt::format("[data] {} must be positive; got '{}'", key, found->second));
  return size;
}

}  // namespace

std::vector<Bucket> assign_buckets(const std::vector<std::int64_t>& bytes, const std::vector<int>& order,
                                   std::int64_t first, std::int64_t cap) {
  std::vector<Bucket> buckets;
  Bucket open;
  for (const int parameter : order) {
    open.parameters.push_back(parameter);
    open.bytes += bytes.at(static_cast<std::size_t>(parameter));
    if (open.bytes >= (buckets.empty() ? first : cap)) {
      buckets.push_back(std::move(open));
      open = {};
    }
  }
  if (!open.parameters.empty()) buckets.push_back(std::move(open));
  return buckets;
}

/// Every worker has the whole network and a part of the batch; gradients are summed in buckets, each as soon as
/// backward has completed it (or after backward, with overlap=off), and updated bucket by bucket as sums arrive.
/// Options: bucket=25MiB, first-bucket=1MiB, overlap=on|off, collective=…, compress=… (read by the executor).
/// Source:  Li et al., PyTorch Distributed, VLDB 2020.
Plan data_parallel(const StrategyInput& input) {
  require_options(input.spec, {"bucket", "first-bucket", "overlap", "collective", "compress"});
  const bool overlap = switch_option(input.spec, "overlap", true);
  std::vector<std::int64_t> bytes;
  for (const auto& spec : input.graph.parameter_specs()) bytes.push_back(spec.elements() * input.element_bytes);
  auto order = input.gradient_order;
  if (order.empty()) {
    order.resize(bytes.size());
    std::iota(order.rbegin(), order.rend(), 0);
  }
  const auto cap = size_option(input.spec, "bucket", kBucketCap);
  const auto first = std::min(cap, size_option(input.spec, "first-bucket", kFirstBucket));
  if (input.workers == 1) {
    // Nobody to exchange gradients with: what is left is one worker's step.
    auto one = input;
    one.spec = {"single", {}};
    auto alone = single(one);
    alone.strategy = "data";
    return alone;
  }

  auto plan = replicas(input);
  plan.groups = {{"data", {{0}}}};
  auto& role = plan.roles[0];
  role.buckets = assign_buckets(bytes, order, first, cap);
  role.buckets.back().bytes += input.element_bytes;
  role.buckets.back().control = true;
  const auto count = static_cast<int>(role.buckets.size());
  const auto backward = static_cast<int>(role.tasks.size()) - 1;
  for (int b = 0; b < count; ++b) {
    Task reduce;
    reduce.kind = TaskKind::collective;
    reduce.stream = Stream::communication;
    reduce.label = fmt::format("all-reduce {}", b);
    reduce.bucket = b;
    reduce.bytes = role.buckets[static_cast<std::size_t>(b)].bytes;
    reduce.group = 0;
    reduce.cargo = Cargo::gradients;
    if (overlap) {
      reduce.waits_for = b;
    } else {
      reduce.after = {backward};
    }
    role.holds.buckets += reduce.bytes;
    role.tasks.push_back(std::move(reduce));
  }
  for (int b = 0; b < count; ++b) {
    Task update;
    update.kind = TaskKind::update;
    update.label = fmt::format("update {}", b);
    update.bucket = b;
    update.after = {backward};
    for (int other = 0; other < count; ++other)
      if (other == b || input.whole_gradient) update.after.push_back(backward + 1 + other);
    role.tasks.push_back(std::move(update));
  }
  // Gradients live in the buckets; autograd's own are dropped as they are copied in.
  role.holds.gradients = 0;
  number_meetings(plan);
  return plan;
}

}  // namespace ddl
