#include "ddl/cli/tree.h"

#include "ddl/core/text.h"

namespace ddl {
namespace {

FlagInfo flag_info(const CLI::Option& option) {
  FlagInfo flag;
  for (const auto& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) flag.names.push_back("--" + name);
  if (option.get_items_expected_max() > 0) flag.value = option.get_type_name();
  if (flag.value.find('|') != std::string::npos) flag.choices = split(flag.value, '|');
  flag.help = option.get_description();
  flag.standard = option.get_default_str();
  return flag;
}

}  // namespace

std::vector<CommandInfo> commands_of(const CLI::App& root) {
  std::vector<CommandInfo> all;
  for (const auto* app : root.get_subcommands({})) {
    CommandInfo command{app->get_name(), app->get_description(), app->get_footer(), {}, {}};
    for (const auto* option : app->get_options({})) {
      if (option->nonpositional())
        command.flags.push_back(flag_info(*option));
      else
        command.positionals.push_back({option->get_name(true), option->get_description(), option->get_required()});
    }
    all.push_back(std::move(command));
  }
  return all;
}

}  // namespace ddl
