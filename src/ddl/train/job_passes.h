#pragma once

#include <cstdint>

#include "ddl/plan/plan.h"
#include "ddl/strategy/batch_shares.h"
#include "ddl/train/job.h"
#include "ddl/train/plan_job.h"

namespace ddl {

// What a job says of its workers' passes, and what can be known of that without LibTorch.

/// Whether workers' passes are graphs, where their devices have such. What is shared by workers of one process is in order on one stream alone.
inline bool wants_graphs(const Job& job) { return job.graphs == "on" && job.kernels != "torch" && !is_in_process(job); }

/// The most samples that one worker has in one forward pass.
inline std::int64_t largest_pass(const Job& job, const Plan& plan) {
  const auto cut = [](std::int64_t all, std::int64_t parts) { return (all + parts - 1) / parts; };
  return cut(most_samples(job.strategy, job.batch, plan.shares()), plan.micro_batches);
}

}  // namespace ddl
