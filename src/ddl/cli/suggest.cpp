#include "ddl/cli/suggest.h"

#include "ddl/core/error.h"
#include "ddl/core/text.h"
#include "ddl/lab/config_values.h"

namespace ddl {
namespace {

std::vector<std::string> commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* sub : app.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

std::vector<std::string> flags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options({}))
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::string unexpected(const CLI::App& root, const std::string& word) {
  const auto& app = deepest(root);
  if (word.starts_with("-")) {
    const auto flag = word.substr(0, word.find('=')).substr(0, 80);
    return fmt::format("unknown flag {} of '{}'{}", in_quotes(flag), app.get_name(), did_you_mean(flag, flags(app)));
  }
  if (&app == &root)
    return fmt::format("unknown command {}{}; expected one of: {}", in_quotes(word), did_you_mean(word.substr(0, 80), commands(root)),
                       join(commands(root), " "));
  return fmt::format("unexpected argument {} of '{}'", in_quotes(word), app.get_name());
}

}  // namespace

const CLI::App& deepest(const CLI::App& root) {
  const auto parsed = root.get_subcommands();
  return parsed.empty() ? root : *parsed.front();
}

std::string explain(const CLI::App& root, const CLI::ParseError& error) {
  const auto& app = deepest(root);
  const auto left = root.remaining(true);
  std::string what = error.what();
  if (!left.empty())
    what = unexpected(root, left.front());
  else if (&app == &root)
    what = fmt::format("no command; expected one of: {}", join(commands(root), " "));
  return fmt::format("{}; see: ddlbench {}--help", what, &app == &root ? "" : app.get_name() + " ");
}

}  // namespace ddl
