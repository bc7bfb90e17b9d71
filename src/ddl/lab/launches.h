#pragma once

#include <memory>

#include "ddl/data/dataset.h"
#include "ddl/lab/coordinator.h"
#include "ddl/transport/fabric.h"

namespace ddl {

class AgentHub;

/// Moments of a start, in order; 0 where unknown. Rank 0's where ranks differ.
struct LaunchTimes {
  Nanoseconds requested = 0, entered = 0, dataset_open = 0, started = 0, network_built = 0, connected = 0, first_step = 0;
};

/// How the experiment's subject starts its workers. All are kept by reference.
/// Errors: not_found for an unknown subject, unsupported where it cannot run here.
std::unique_ptr<Launch> make_launch(const Experiment& experiment, const DatasetPair& data, const RunEvents& events,
                                    Observed& observed, LaunchTimes& times, const Fabric* fabric, AgentHub* launched);

/// `fabric`: where the workers go, by experiment.job.hosts; null: nowhere. `launched`: the ranks that a launcher started with this
/// process; null: workers are forked here, or for mpi started by its launcher.
std::unique_ptr<Launch> worker_launch(const Experiment& experiment, const DatasetPair& data, const RunEvents& events,
                                      Observed& observed, LaunchTimes& times, const Fabric* fabric, AgentHub* launched);
std::unique_ptr<Launch> peer_launch(const Experiment& experiment, const DatasetPair& data, const RunEvents& events,
                                    Observed& observed, LaunchTimes& times);

}  // namespace ddl
