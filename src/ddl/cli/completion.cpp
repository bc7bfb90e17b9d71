#include "ddl/cli/command.h"
#include "ddl/cli/tree.h"
#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

using Commands = std::vector<CommandInfo>;

std::string names(const Commands& commands) {
  std::vector<std::string> all;
  for (const auto& command : commands) all.push_back(command.name);
  return join(all, " ");
}

/// The words after a command that its help lists: `list models|datasets|…`.
std::string first_words(const CommandInfo& command) {
  constexpr std::string_view kMark = "One of: ";
  for (const auto& positional : command.positionals)
    if (positional.help.starts_with(kMark)) return positional.help.substr(kMark.size());
  return "";
}

std::string quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

std::string bash(const Commands& commands) {
  std::string text = "# ddlbench completion for bash: source <(ddlbench completion bash)\n_ddlbench() {\n"
                     "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" words=\"\"\n"
                     "  COMPREPLY=()\n"
                     "  if [ \"$COMP_CWORD\" -le 1 ]; then\n    COMPREPLY=($(compgen -W '" + names(commands) +
                     " --help --version' -- \"$current\"))\n    return\n  fi\n  case \"${COMP_WORDS[1]}:$previous\" in\n";
  for (const auto& command : commands)
    for (const auto& flag : command.flags)
      if (!flag.choices.empty())
        text += fmt::format("    {}:{}) COMPREPLY=($(compgen -W '{}' -- \"$current\")); return ;;\n", command.name, flag.names.back(),
                            join(flag.choices, " "));
  text += "  esac\n  case \"${COMP_WORDS[1]}\" in\n";
  for (const auto& command : commands) {
    std::string words = first_words(command);
    for (const auto& flag : command.flags) words += (words.empty() ? "" : " ") + join(flag.names, " ");
    text += fmt::format("    {}) words='{}' ;;\n", command.name, words);
  }
  return text + "  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$current\") $(compgen -f -- \"$current\"))\n  return 0\n}\n"
                "complete -o filenames -F _ddlbench ddlbench ./ddlbench\n";
}

std::string zsh(const Commands& commands) {
  std::string text = "#compdef ddlbench\n# ddlbench completion for zsh: ddlbench completion zsh > ~/.zfunc/_ddlbench\n_ddlbench() {\n"
                     "  if (( CURRENT == 2 )); then\n    local -a commands=(\n";
  for (const auto& command : commands) text += "      " + quoted(command.name + ":" + command.summary) + "\n";
  text += "    )\n    _describe command commands\n    return\n  fi\n  local -a flags=()\n  case \"$words[2]\" in\n";
  for (const auto& command : commands) {
    text += fmt::format("    {})\n", command.name);
    for (const auto& flag : command.flags)
      for (const auto& name : flag.names) text += "      flags+=(" + quoted(name + ":" + flag.help) + ")\n";
    for (const auto& word : split(first_words(command), ' '))
      if (!word.empty()) text += "      flags+=(" + quoted(word) + ")\n";
    text += "      ;;\n";
  }
  return text + "  esac\n  _describe flag flags\n  _files\n}\n_ddlbench \"$@\"\n";
}

std::string fish(const Commands& commands) {
  std::string text = "# ddlbench completion for fish: ddlbench completion fish > ~/.config/fish/completions/ddlbench.fish\n";
  for (const auto& command : commands) {
    text += fmt::format("complete -c ddlbench -n __fish_use_subcommand -a {} -d {}\n", command.name, quoted(command.summary));
    const auto when = fmt::format("complete -c ddlbench -n '__fish_seen_subcommand_from {}'", command.name);
    if (const auto words = first_words(command); !words.empty()) text += when + " -a " + quoted(words) + "\n";
    for (const auto& flag : command.flags) {
      text += when;
      for (const auto& name : flag.names) text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!flag.value.empty()) text += " -r";
      if (!flag.choices.empty()) text += " -f -a " + quoted(join(flag.choices, " "));
      text += " -d " + quoted(flag.help) + "\n";
    }
  }
  return text;
}

}  // namespace

Command add_completion(CLI::App& root) {
  struct Options {
    Output output;
    std::string shell;
  };
  auto options = std::make_shared<Options>();
  auto* app = add_command(root, "completion", "Print a shell's completion script.", options->output,
                          {"ddlbench completion bash", "ddlbench completion zsh", "ddlbench completion fish"});
  app->add_option("shell", options->shell, "One of: bash zsh fish")->type_name("SHELL")->required();
  return {app, [options, &root] {
            const auto commands = commands_of(root);
            const std::vector<std::string> known{"bash", "zsh", "fish"};
            std::string script;
            if (options->shell == "bash") script = bash(commands);
            if (options->shell == "zsh") script = zsh(commands);
            if (options->shell == "fish") script = fish(commands);
            if (script.empty())
              throw Error(Code::invalid_argument, fmt::format("completion: unknown shell; got '{}'{}, expected one of: {}", options->shell,
                                                              did_you_mean(options->shell, known), join(known, " ")));
            if (options->output.json)
              options->output.document({{"schema", "ddlbench.completion/1"}, {"shell", options->shell}, {"script", script}});
            else
              options->output.data(script);
            return Exit::ok;
          }};
}

}  // namespace ddl
