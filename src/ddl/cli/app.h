#pragma once

namespace ddl {

/// Parses, runs one subcommand, and returns the exit code (exit_codes.h). Nothing is thrown.
int run_command_line(int argc, const char* const* argv);

}  // namespace ddl
