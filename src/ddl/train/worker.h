#pragma once

#include "ddl/data/dataset.h"
#include "ddl/train/control.h"
#include "ddl/train/job.h"

namespace ddl {

/// A worker's whole life in its own process: connects to its peers, builds the network, trains, evaluates, and tells
/// the coordinator of every step. Returns the process's exit status; a failure is sent as `failed` first.
int run_worker(const Job& job, int rank, const DatasetPair& data, Control control);

/// Errors: unsupported or invalid_argument for anything in the job that this build cannot run, before any process
/// is started: an unknown name, a device that is absent, more workers than samples, an unsound plan.
void check_job(const Job& job, const DatasetPair& data);

}  // namespace ddl
