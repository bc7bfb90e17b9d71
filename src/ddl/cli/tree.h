#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace ddl {

/// A flag as completions and man pages need it.
struct FlagInfo {
  std::vector<std::string> names;    ///< "-o", "--output"
  std::string value;                 ///< "FILE"; empty of a switch
  std::vector<std::string> choices;  ///< of a value written a|b|c
  std::string help, standard;
};

struct PositionalInfo {
  std::string name, help;
  bool required = false;
};

struct CommandInfo {
  std::string name, summary, footer;
  std::vector<FlagInfo> flags;
  std::vector<PositionalInfo> positionals;
};

/// Every subcommand of the tree, in the order of --help.
std::vector<CommandInfo> commands_of(const CLI::App& root);

}  // namespace ddl
