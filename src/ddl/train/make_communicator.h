#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ddl/collective/communicator.h"
#include "ddl/train/control.h"
#include "ddl/train/job.h"

namespace ddl {

/// What "auto" stands for between so many ranks: what was measured here, or else the built-in rule.
std::string automatic_algorithm(const Job& job, Goal goal, std::size_t bytes, int ranks, bool shares_memory);

/// Between a worker and its peers, who find each other through the coordinator. Null for a worker that is alone. `job` must outlive it.
/// Errors: those of choose_transport() and TransportFactory.
std::unique_ptr<Communicator> make_communicator(const Job& job, int rank, Control& control);

}  // namespace ddl
