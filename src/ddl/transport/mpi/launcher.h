#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ddl/transport/mpi/implementations.h"

namespace ddl {

/// What a launcher says, by the environment, of a process that it started.
struct LaunchedProcess {
  int rank = 0;
  int ranks = 1;
};

/// Empty where no launcher started this process, or one started it alone: a shell of `srun --pty` is a place to start things from,
/// not a group of ranks.
/// Errors: unsupported where srun started several without telling them of each other.
std::optional<LaunchedProcess> launched_process();

/// How many processes the launcher says that it started; 0 where it says nothing.
int launched_ranks();

/// A group of ranks to be started by an MPI's own launcher.
struct MpiLaunch {
  std::vector<std::string> program;    ///< what each rank is, with its arguments
  int ranks = 1;
  std::vector<std::string> pass = {};  ///< names of variables that ranks need
  /// Several hosts: how many ranks each address has, in rank order; empty: this one alone.
  struct Host {
    std::string address;
    int ranks = 0;
  };
  std::vector<Host> hosts = {};
  std::string network = {};            ///< that they share, as in 10.77.0.0/24
  std::string shell = {};              ///< a command that runs another on a host: `SHELL ADDRESS COMMAND…`
};

/// To be executed: a command, and variables for its environment, "NAME=value" or "NAME" for one to take away.
struct LauncherCommand {
  std::vector<std::string> command;
  std::vector<std::string> variables;
};

/// Looks for the launcher and puts it into words. Ranks are not bound to cores, and yield where they outnumber them and the
/// implementation can.
/// Errors: unsupported: the launcher is not here (which, and what has it), or cannot start ranks on several hosts.
LauncherCommand launcher_command(const MpiImplementation& implementation, const MpiLaunch& launch);

}  // namespace ddl
