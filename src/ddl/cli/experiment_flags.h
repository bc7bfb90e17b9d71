#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ddl/lab/config.h"

namespace ddl {

/// Every experiment key as a flag of a subcommand, and --set. Holds what was given: keep it as long as the App.
class ExperimentFlags {
 public:
  explicit ExperimentFlags(CLI::App& app);
  ExperimentFlags(const ExperimentFlags&) = delete;
  ExperimentFlags& operator=(const ExperimentFlags&) = delete;

  /// What was given, checked. Errors: invalid_argument naming the flag or --set.
  Settings settings() const;

 private:
  struct Flag {
    std::string key, name, value;
    CLI::Option* option = nullptr;
  };
  std::vector<Flag> flags_;
  std::vector<std::string> sets_;
};

/// The flag of a key: `learning_rate` is `--learning-rate`.
std::string flag_of(const std::string& key);

/// Refuses names that no registry knows, each with where it was given. Errors: those of Registry::at().
void check_names(const Experiment& experiment);

}  // namespace ddl
