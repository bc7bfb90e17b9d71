#pragma once

#include <cstdint>
#include <optional>

#include "ddl/plan/plan.h"
#include "ddl/train/job.h"

namespace ddl {

/// The first of a job's workers that computes itself, which what was measured of a machine is looked up for, and the samples of its micro-batches.
struct RealWorker {
  int number = 0;
  std::int64_t samples = 0;
};
/// None: all are emulated.
std::optional<RealWorker> first_real_worker(const Job& job, const Plan& plan);

}  // namespace ddl
