#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ddl/nn/network.h"
#include "ddl/train/device.h"
#include "ddl/train/job.h"
#include "ddl/train/job_passes.h"
#include "ddl/train/optimizer.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/precision.h"

namespace ddl {

// What a job says of its workers' networks, and of the devices that they are on.

inline Kernels kernels(const Job& job) { return job.kernels == "torch" ? Kernels::torch : Kernels::fast; }

/// Whether ranks multiply matrices by what nn/multiplier.h chooses.
inline bool chooses_multipliers(const Job& job) {
  const bool multiplies = job.precision == "fp32" || job.precision == "bf16";  // which some processors multiply in fp32
  return kernels(job) == Kernels::fast && multiplies && std::any_of(job.workers.begin(), job.workers.end(), [](const auto& worker) { return worker.device == "cpu" && !worker.emulated(); });
}

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

}  // namespace ddl
