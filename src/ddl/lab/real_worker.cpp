#include "ddl/lab/real_worker.h"

#include <algorithm>

#include "ddl/train/job_network.h"

namespace ddl {

std::optional<RealWorker> first_real_worker(const Job& job, const Plan& plan) {
  const auto real = std::find_if(job.workers.begin(), job.workers.end(), [](const WorkerSpec& worker) { return !worker.emulated(); });
  if (real == job.workers.end()) return std::nullopt;
  return RealWorker{static_cast<int>(real - job.workers.begin()), largest_pass(job, plan)};
}

}  // namespace ddl
