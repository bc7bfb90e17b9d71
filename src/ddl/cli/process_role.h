#pragma once

namespace ddl {

/// What this process is for: to act on a command line, as nearly always; to be a rank of somebody else's command, where a launcher
/// started it beside others; or one of the two things that our own launches start (lab/mpi_group.h). Returns the exit code.
int play_role(int argc, char** argv);

}  // namespace ddl
