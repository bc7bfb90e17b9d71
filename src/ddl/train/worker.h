#pragma once

#include <string>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/data/dataset.h"
#include "ddl/train/control.h"
#include "ddl/train/job.h"

namespace ddl {

/// A worker's whole life in its own process: connects to its peers, builds the network, trains, evaluates, and tells
/// the coordinator of every step. Returns the process's exit status; a failure is sent as `failed` first. A process may run one
/// job after another.
int run_worker(const Job& job, int rank, const DatasetPair& data, Control& control);

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
/// process is started: an unknown name or option, a device that is absent, more workers than samples, an unsound plan.
/// `shape` and `samples` are the training set's; samples 0: not known yet.
void check_job(const Job& job, const SampleShape& shape, std::int64_t samples);

}  // namespace ddl
