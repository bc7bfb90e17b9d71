#pragma once

#include <cstdint>
#include <vector>

#include "ddl/lab/predict_job.h"

namespace ddl {

/// A worker that computes itself, which what was measured of a machine is looked up for, and the samples of its micro-batches.
struct RealWorker {
  int number = 0;
  std::int64_t samples = 0;
};
/// Of a worker's micro-batches, the largest.
std::int64_t samples_of(const Job& job, const Plan& plan, int worker);
/// Of a job's workers that compute themselves one of each sort: device, threads, samples and host that it shares with as many. None: all are emulated.
std::vector<RealWorker> real_workers(const Job& job, const Plan& plan, const MeasuredMachine& machine);

/// The share of the time in which others had the cores while what they compute was measured, of the worker with the largest; 0 where nothing was measured, or all are emulated.
double waited(const Job& job, const Plan& plan, const JobCosts& costs);

}  // namespace ddl
