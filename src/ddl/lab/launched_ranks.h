#pragma once

#include <sys/types.h>

#include "ddl/lab/agent_hub.h"
#include "ddl/transport/mpi/launcher.h"

namespace ddl {

/// Rank 0's process of a group that a launcher started: it coordinates, and its own rank has an agent in a child of this process,
/// as the others' are in theirs. Made before anything else happens there: whatever comes of the command, all ranks join each other
/// by MPI and leave in order.
class LaunchedRanks {
 public:
  /// Errors: io.
  explicit LaunchedRanks(const LaunchedProcess& process);
  /// Waits for all ranks' end.
  ~LaunchedRanks();
  LaunchedRanks(const LaunchedRanks&) = delete;
  LaunchedRanks& operator=(const LaunchedRanks&) = delete;

  AgentHub& hub() { return hub_; }

 private:
  void wait_for_all();
  bool agent_is_gone();

  AgentHub hub_;
  pid_t agent_ = -1;
};

}  // namespace ddl
