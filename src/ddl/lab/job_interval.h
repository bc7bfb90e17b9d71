#pragma once

#include <utility>

#include "ddl/lab/beyond.h"

namespace ddl {

/// Where 90 % of a job's steps lie, in seconds: how far off computing may be, what runs of the same differ by, what exchanges that nothing hides are off by, and more of each outside of what was measured (docs/model.md).
/// Of what is emulated alone: what computing says. `part`: what worker 0 has of the network.
std::pair<double, double> job_interval(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Json& machine, const Beyond& beyond, const StepPrediction& step);

}  // namespace ddl
