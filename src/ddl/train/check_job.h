#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"
#include "ddl/train/job.h"

namespace ddl {

/// What is wrong with a job, and which key of it says so.
class JobFault : public Error {
 public:
  JobFault(std::string key, Code code, const std::string& message) : Error(code, message), key_(std::move(key)) {}
  /// As experiments name it: "workers".
  const std::string& key() const { return key_; }

 private:
  std::string key_;
};

/// Throws a JobFault, unsupported or invalid_argument, for anything in the job that this build cannot run, before any
/// process is started: an unknown name or option, a device that is absent, more workers than samples, an unsound plan, or one that does not fit into memory.
/// `shape` and `samples` are the training set's; samples 0: not known yet.
void check_job(const Job& job, const SampleShape& shape, std::int64_t samples);

/// Of that, what does not hang on devices, the network or the plan. Throws a JobFault.
void check_way(const Job& job);
/// Whether what a plan keeps of parameters in parts is where this build can gather it: not on devices with memory of their own.
bool parts_have_a_place(const Job& job, const Plan& plan);

/// Whether workers that are processes are trained over it, where the build has it: not over those that are for comparison.
bool trains_over(const std::string& transport);

/// Throws a JobFault for a plan that verify() finds fault with, or that does not fit: where a worker's plan holds more than Job::memory_limit or, where none is given and workers are on the processor, one of them or all
/// together hold more than this machine has, or where one that is emulated holds more than its profile says there is. Of segments that a single stage is run again in plans know nothing: activations do not count there.
void check_plan(const Job& job, const ModelGraph& graph, const Plan& plan);

}  // namespace ddl
