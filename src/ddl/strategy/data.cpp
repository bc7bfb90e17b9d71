#include "ddl/core/error.h"
#include "ddl/core/options.h"
#include "ddl/strategy/batch_shares.h"
#include "ddl/strategy/bucketing.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/in_process.h"
#include "ddl/strategy/own_options.h"
#include "ddl/strategy/tasks.h"

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

namespace {

/// Where buckets cannot be cut anew while the run goes on, or there are none to exchange.
void refuse_tuning(const Spec& spec, const std::string& threads) {
  if (threads == "parallel") throw Error(Code::invalid_argument, "[data] threads of one process that lead no replica of their own exchange no buckets; got bucket=auto with in-process=parallel, expected a size, as 25MiB");
  if (const auto found = spec.options.find("compress"); found != spec.options.end() && found->second != "none")
    throw Error(Code::invalid_argument, fmt::format("[data] what a compression keeps back of each bucket would be lost when they are cut anew; got bucket=auto with compress={}, expected a size, as 25MiB", found->second));
}

}  // namespace

/// Every worker has the whole network and a part of the batch; gradients are summed in buckets, each as soon as
/// backward has completed it (or after backward, with overlap=off), and updated bucket by bucket as sums arrive.
/// Options: bucket=25MiB or auto (the size with which the run's first steps are fastest, and the overlap if nothing is said; bucketing.h), first-bucket=1MiB, overlap=on|off, collective=…, compress=… (read by the executor).
///          shares=3/1: proportions of the batch, one for each worker, where these are not alike: the gradient is the same, since it is weighted by samples. What is planned to be held is with the largest.
///          in-process=off|mirrored|parallel: workers are threads of one process. mirrored: the same, with overlap=off if nothing else is said, as tf.distribute.MirroredStrategy
///          has it; parallel: as torch.nn.DataParallel (in_process.h).
/// Source:  Li et al., PyTorch Distributed, VLDB 2020.
Plan data_parallel(const StrategyInput& input) {
  const auto threads = word_option(input.spec, "in-process", {"off", "mirrored", "parallel"});
  if (threads == "parallel")
    require_own_options(input.spec, {"in-process", "bucket", "first-bucket", "overlap", "recompute"},
                        {{"compress", {"threads of one process share memory, and nothing is sent that could be compressed", "no compress, or data without in-process=parallel"}},
                         {"collective", {"with in-process=parallel gradients go to worker 0, and there is no way to choose", "no collective, or in-process=mirrored, whose workers all-reduce"}}});
  else
    require_own_options(input.spec, {"in-process", "bucket", "first-bucket", "overlap", "collective", "compress", "shares"});
  if (const auto shares = batch_shares(input.spec); !shares.empty() && static_cast<int>(shares.size()) != input.workers)
    throw Error(Code::invalid_argument, fmt::format("[data] shares; got {} of them ({}), expected {}, one for each worker", shares.size(), input.spec.options.at("shares"), input.workers));
  const bool overlap = overlaps_backward(input.spec);
  if (tunes_buckets(input.spec)) refuse_tuning(input.spec, threads);
  // Nobody to exchange gradients with: what is left is one worker's step.
  if (input.workers == 1) return alone(input);
  if (threads == "parallel") return replicas_of_one(input);

  auto plan = replicas(input);
  plan.in_process = threads == "mirrored";
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
    add(role, std::move(reduce));
  }
  append_updates(input, role, backward, backward + 1);
  // Gradients live in the buckets; autograd's own are dropped as they are copied in.
  role.holds = in_buckets(input, role.holds);
  number_meetings(plan);
  return plan;
}

}  // namespace ddl
