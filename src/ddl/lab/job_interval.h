#pragma once

#include "ddl/lab/beyond.h"

namespace ddl {

struct StepInterval {
  double low = 0, high = 0;  ///< seconds; 90 % of the job's steps lie between them
  double apart = 0;          ///< standard deviation of the logarithm of measured over predicted by which this way of the job is off where other ways of it on the same machine are not: what tells two ways apart. Left out is what slows or hastens all: a device that is not as its datasheet, a host that drifts.
};

/// Where 90 % of a job's steps lie: how far off computing may be, what runs of the same differ by, what exchanges that nothing hides are off by, and more of each outside of what was measured (docs/model.md).
/// Of what is emulated alone computing is known. `part`: what worker 0 has of the network.
StepInterval job_interval(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Beyond& beyond, const StepPrediction& step);

}  // namespace ddl
