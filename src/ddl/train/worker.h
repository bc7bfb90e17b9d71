#pragma once

#include "ddl/data/dataset.h"
#include "ddl/train/control.h"
#include "ddl/train/job.h"

namespace ddl {

/// Before ranks that are threads of this process begin: what may be done once alone.
void prepare_for_threads(const Job& job);

/// A worker's whole life in its own process: connects to its peers, builds the network, trains, evaluates, and tells
/// the coordinator of every step. Returns the process's exit status; a failure is sent as `failed` first. A process may run one
/// job after another.
int run_worker(const Job& job, int rank, const DatasetPair& data, Control& control);

}  // namespace ddl
