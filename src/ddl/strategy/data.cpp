#include "ddl/core/options.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"

namespace ddl {

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
  // Nobody to exchange gradients with: what is left is one worker's step.
  if (input.workers == 1) return alone(input);

  auto plan = replicas(input);
  plan.groups = {{"data", {{0}}}};
  auto& role = plan.roles[0];
  role.buckets = network_buckets(input);
  const auto count = static_cast<int>(role.buckets.size());
  const auto backward = static_cast<int>(role.tasks.size()) - 1;
  for (int b = 0; b < count; ++b) {
    auto reduce = reduction(role, b);
    if (overlap) {
      reduce.waits_for = b;
    } else {
      reduce.after = {backward};
    }
    role.tasks.push_back(std::move(reduce));
  }
  append_updates(input, role, backward, backward + 1);
  // Gradients live in the buckets; autograd's own are dropped as they are copied in.
  role.holds.gradients = 0;
  number_meetings(plan);
  return plan;
}

}  // namespace ddl
