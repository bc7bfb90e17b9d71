#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ddl/cli/exit_codes.h"
#include "ddl/cli/output.h"

namespace ddl {

class AgentHub;

/// A subcommand: its part of the tree, and what it does once its arguments are parsed.
/// `act` may throw Error; main turns it into one line and an exit code.
struct Command {
  CLI::App* app = nullptr;
  std::function<Exit()> act;
};

/// A new subcommand with --json and --quiet, which write to `output`, and examples that run as they stand.
CLI::App* add_command(CLI::App& root, const std::string& name, const std::string& summary, Output& output,
                      const std::vector<std::string>& examples);

/// `launched`: the ranks that a launcher started with this process; null: there are none.
Command add_run(CLI::App& root, AgentHub* launched);
Command add_sweep(CLI::App& root, AgentHub* launched);
Command add_probe(CLI::App& root, AgentHub* launched);
Command add_status(CLI::App& root);
Command add_resume(CLI::App& root, AgentHub* launched);
Command add_predict(CLI::App& root);
Command add_explain(CLI::App& root);
Command add_advise(CLI::App& root);
Command add_validate(CLI::App& root);
Command add_list(CLI::App& root);
Command add_doctor(CLI::App& root);
Command add_env(CLI::App& root);
Command add_report(CLI::App& root);
Command add_export(CLI::App& root);
Command add_selftest(CLI::App& root);
Command add_completion(CLI::App& root);
Command add_man(CLI::App& root);

}  // namespace ddl
