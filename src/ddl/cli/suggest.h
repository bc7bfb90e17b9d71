#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace ddl {

/// The subcommand that was parsed, or `root`.
const CLI::App& deepest(const CLI::App& root);

/// What was wrong with a command line, in one line, with the nearest flag or command and where to read more.
std::string explain(const CLI::App& root, const CLI::ParseError& error);

}  // namespace ddl
