#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ddl/nn/network.h"
#include "ddl/plan/plan.h"
#include "ddl/strategy/batch_shares.h"
#include "ddl/train/device.h"
#include "ddl/train/job.h"
#include "ddl/train/optimizer.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/precision.h"

namespace ddl {

// What a job says of its workers' networks, and of the devices that they are on.

inline Kernels kernels(const Job& job) { return job.kernels == "torch" ? Kernels::torch : Kernels::fast; }

/// Whether workers' passes are graphs, where their devices have such. What is shared by workers of one process is in order on one stream alone.
inline bool wants_graphs(const Job& job) { return job.graphs == "on" && kernels(job) == Kernels::fast && !is_in_process(job); }

inline DeviceOptions device_options(const Job& job) { return {.tf32 = job.precision == "tf32", .graphs = wants_graphs(job), .tunes = kernels(job) == Kernels::fast}; }

inline NetworkOptions network_options(const Job& job, Device& device, std::vector<bool> layers = {}) {
  return {element_bytes(job.precision) == 8 ? at::kDouble : at::kFloat, device.where(), kernels(job), job.seed, std::move(layers), dense_planes(job)};
}

/// What updates a job's parameters: ATen, as it computes everything else, where its kernels are.
inline std::unique_ptr<Optimizer> job_optimizer(const Job& job, std::vector<at::Tensor> parameters) {
  auto made = make_optimizer(job.optimizer, std::move(parameters), {job.momentum, job.weight_decay});
  if (kernels(job) == Kernels::torch) made->use_aten();
  return made;
}

/// The most samples that one worker has in one forward pass.
inline std::int64_t largest_pass(const Job& job, const Plan& plan) {
  const auto cut = [](std::int64_t all, std::int64_t parts) { return (all + parts - 1) / parts; };
  return cut(most_samples(job.strategy, job.batch, plan.shares()), plan.micro_batches);
}

}  // namespace ddl
