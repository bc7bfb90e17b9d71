#pragma once

#include <optional>
#include <string>

#include "ddl/lab/meeting.h"

namespace ddl {

/// One process that a launcher started.
struct AgentSeat {
  int rank = 0;
  int ranks = 1;
  std::string implementation = {};            ///< as choose_mpi()
  std::optional<Meeting> meeting = {};        ///< where it is known from the start
  bool announced = false;                     ///< rank 0 says to all, through MPI, where that is
};

/// A launcher's process, from start to end. It forks a worker, which joins the others by MPI, stands between it and the
/// coordinator, and tells what it says, prints and dies of: a launcher itself would only say that something died, and take the
/// coordinator with it. The worker is MPI's process, and this one never calls MPI.
/// Returns the exit status: 0 where the worker ended well, so that the launcher's own is not 0 where one did not.
/// Errors: those of dial().
int run_agent(const AgentSeat& seat);

}  // namespace ddl
