#pragma once

namespace ddl {

class AgentHub;

/// Parses, runs one subcommand, and returns the exit code (exit_codes.h). Nothing is thrown. `launched`: the ranks that a launcher
/// started with this process; null: there are none.
int run_command_line(int argc, const char* const* argv, AgentHub* launched);

}  // namespace ddl
