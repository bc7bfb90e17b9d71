#pragma once

#include <string>
#include <vector>

namespace ddl {

/// Runs a program found in PATH with these arguments, without a shell, to its end, and returns its standard output.
/// Ctrl-C of the terminal does not reach it, so that nothing stays half done.
/// Errors: unsupported where the program is not there (`needs` says what has it); io where it fails: the command line,
/// how it ended and what it said on standard error.
/// Threads: any; SIGCHLD must not be ignored.
std::string run_command(const std::vector<std::string>& command, const std::string& needs);

}  // namespace ddl
