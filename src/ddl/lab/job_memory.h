#pragma once

#include <cstdint>
#include <string>

#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"
#include "ddl/predict/predict_step.h"
#include "ddl/train/job.h"

namespace ddl {

struct JobCosts;

/// What the worker that holds most may hold, against what there is for it.
struct JobMemory {
  std::int64_t low = 0, high = 0;       ///< bytes; where 90 % of what was planned lies, of GPUs of what their allocator takes of the device for it
  bool fits = true;                     ///< what each worker is planned to hold
  bool surely = true;                   ///< each worker's upper end
  std::int64_t tight = 0, room = 0;     ///< bytes, where that is not sure: the upper end of a worker that it may be too much for, and what there is for that one
};

/// `step` is the plan's; `job` as job_on() has it. Of emulated workers: what the device that they stand for holds.
JobMemory job_memory(const Job& job, const ModelGraph& graph, const Plan& plan, const JobCosts& costs, const StepPrediction& step);

/// "2.65 GiB (2.39 GiB to 2.92 GiB)", and whether that is more than there is, or may be.
std::string memory_held(const StepPrediction& step, const JobMemory& memory);

}  // namespace ddl
