#include "ddl/cli/command.h"

namespace ddl {

CLI::App* add_command(CLI::App& root, const std::string& name, const std::string& summary, Output& output,
                      const std::vector<std::string>& examples) {
  auto* app = root.add_subcommand(name, summary);
  app->add_flag("--json", output.json, "Print one JSON document on standard output, and nothing else there.");
  app->add_flag("--quiet", output.quiet, "Print nothing on standard error but errors.");
  std::string footer = "Examples:";
  for (const auto& example : examples) footer += "\n  " + example;
  app->footer(footer);
  return app;
}

}  // namespace ddl
