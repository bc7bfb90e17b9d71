#pragma once

#include "ddl/data/dataset.h"
#include "ddl/train/control.h"
#include "ddl/train/job.h"

namespace ddl {

/// A worker's whole life in its own process: connects to its peers, builds the network, trains, evaluates, and tells
/// the coordinator of every step. Returns the process's exit status; a failure is sent as `failed` first. A process may run one
/// job after another.
int run_worker(const Job& job, int rank, const DatasetPair& data, Control& control);

}  // namespace ddl
