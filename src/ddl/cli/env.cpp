#include "ddl/cli/command.h"
#include "ddl/core/error.h"
#include "ddl/lab/build_info.h"
#include "ddl/measure/environment.h"

namespace ddl {
namespace {

/// Nested objects as `a.b.c  value` rows.
void flatten(const Json& value, const std::string& path, std::vector<std::vector<std::string>>& rows) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, inner] : value.items()) flatten(inner, path.empty() ? key : path + "." + key, rows);
    return;
  }
  rows.push_back({path, value.is_string() ? value.get<std::string>() : value.is_null() ? "unknown" : value.dump()});
}

Exit act(const Output& output) {
  const Json all{{"schema", "ddlbench.env/1"}, {"build", build_info()}, {"environment", capture_environment()}};
  if (output.json) {
    output.document(all);
    return Exit::ok;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto* part : {"build", "environment"}) flatten(all.at(part), part, rows);
  output.data(columns(rows));
  return Exit::ok;
}

}  // namespace

Command add_env(CLI::App& root) {
  auto output = std::make_shared<Output>();
  auto* app = add_command(root, "env", "The environment as a record keeps it, and what this binary was built from.", *output,
                          {"ddlbench env", "ddlbench env --json"});
  return {app, [output] { return act(*output); }};
}

}  // namespace ddl
