#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/lab/processes.h"
#include "ddl/transport/fabric.h"

namespace ddl {

class AgentHub;

/// The ranks that a launcher started with this process, on a job. Errors: peer_lost where they are of no use any more.
std::unique_ptr<Processes> launched_group(AgentHub& hub, const Json& job);

/// Starts `ranks` ranks of this program by the launcher of the MPI that `transport` names, on this host, or on `fabric`'s hosts, by
/// `hosts`, in blocks.
/// Errors: unsupported: launcher, library or fabric are not to be had; io.
std::unique_ptr<Processes> mpi_group(const std::string& transport, int ranks, const Json& job, const std::vector<int>& hosts, const Fabric* fabric);

/// The hidden subcommands of this program: `agent IMPLEMENTATION`, which a launcher starts for each rank, and `on-host ADDRESS=NAMESPACE,…
/// ADDRESS COMMAND…`, by which it reaches a fabric's host.
inline constexpr char kAgentWord[] = "agent";
inline constexpr char kOnHostWord[] = "on-host";
/// Tells an agent where it is met; not by its arguments, which everyone can read.
inline constexpr char kMeetingVariable[] = "DDLBENCH_MEETING";

}  // namespace ddl
