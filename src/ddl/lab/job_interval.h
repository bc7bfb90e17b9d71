#pragma once

#include <utility>

#include "ddl/lab/beyond.h"

namespace ddl {

/// Where 90 % of a job's steps lie, in seconds: how far off computing may be, what runs of the same differ by, what exchanges that nothing hides are off by, and more of each outside of what was measured (docs/model.md).
/// Of what is emulated alone: what the step itself says. `part`: what worker 0 has of the network.
std::pair<double, double> job_interval(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Json& machine, const Beyond& beyond, const StepPrediction& step);

/// How far off the parts of a plan's step may be that are computed: of the logarithm of measured over predicted.
double job_sigma(const JobCosts& costs, const Job& job, const Plan& plan, const ModelGraph& part);

}  // namespace ddl
