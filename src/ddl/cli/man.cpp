#include <filesystem>

#include "ddl/cli/command.h"
#include "ddl/cli/tree.h"
#include "ddl/core/error.h"
#include "ddl/lab/build_info.h"

namespace ddl {
namespace {

/// Text that roff takes as it stands.
std::string plain(const std::string& text) {
  std::string safe;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) safe += "\\&";
    if (c == '\\') safe += "\\e";
    else if (c == '-') safe += "\\-";
    else safe += c;
    line_start = c == '\n';
  }
  return safe;
}

std::string heading(const std::string& page) {
  return fmt::format(".TH {} 1 \"\" \"ddlbench {}\" \"User Commands\"\n", page, build_info()["version"].get<std::string>());
}

std::string examples(const std::string& footer) {
  const auto end = footer.find('\n');
  return end == std::string::npos ? "" : ".SH EXAMPLES\n.nf\n" + plain(footer.substr(end + 1)) + "\n.fi\n";
}

std::string page_of(const CommandInfo& command) {
  std::string text = heading("ddlbench-" + command.name) + fmt::format(".SH NAME\nddlbench\\-{} \\- {}\n", command.name, plain(command.summary)) +
                     fmt::format(".SH SYNOPSIS\n.B ddlbench {}\n", command.name);
  for (const auto& positional : command.positionals)
    text += positional.required ? fmt::format(".I {}\n", plain(positional.name)) : fmt::format("[\\fI{}\\fR]\n", plain(positional.name));
  text += "[\\fIflags\\fR]\n.SH DESCRIPTION\n" + plain(command.summary) + "\n";
  for (const auto& positional : command.positionals) text += fmt::format(".TP\n.I {}\n{}\n", plain(positional.name), plain(positional.help));
  text += ".SH OPTIONS\n";
  for (const auto& flag : command.flags) {
    std::string names;
    for (const auto& name : flag.names) names += (names.empty() ? "" : ", ") + plain(name);
    text += fmt::format(".TP\n\\fB{}\\fR{}\n{}{}\n", names, flag.value.empty() ? "" : " \\fI" + plain(flag.value) + "\\fR", plain(flag.help),
                        flag.standard.empty() ? "" : " Default: " + plain(flag.standard) + ".");
  }
  return text + examples(command.footer) + ".SH SEE ALSO\n.BR ddlbench (1)\n";
}

std::string main_page(const CLI::App& root, const std::vector<CommandInfo>& commands) {
  std::string text = heading("ddlbench") + ".SH NAME\nddlbench \\- " + plain(root.get_description()) +
                     "\n.SH SYNOPSIS\n.B ddlbench\n.I command\n[\\fIflags\\fR]\n.SH COMMANDS\n";
  for (const auto& command : commands) text += fmt::format(".TP\n.BR ddlbench\\-{} (1)\n{}\n", command.name, plain(command.summary));
  return text + ".SH EXIT STATUS\n0 ok; 1 failure; 2 usage or configuration; 3 regression confirmed; 4 some experiments failed or were "
                "skipped; 5 inconclusive; 6 not possible on this machine or with this build; 124 timeout; 130, 143 interrupted.\n" +
         examples(root.get_footer());
}

}  // namespace

Command add_man(CLI::App& root) {
  struct Options {
    Output output;
    std::string command, folder;
  };
  auto options = std::make_shared<Options>();
  auto* app = add_command(root, "man", "Print a man page, or write all of them to a folder.", options->output,
                          {"ddlbench man", "ddlbench man run", "ddlbench man --out man1"});
  app->add_option("command", options->command, "Command that the page is about. Without one, the page of ddlbench.")->type_name("COMMAND");
  app->add_option("--out", options->folder, "Folder to write every page to.")->type_name("FOLDER");
  return {app, [options, &root] {
            const auto commands = commands_of(root);
            std::vector<std::pair<std::string, std::string>> pages{{"ddlbench", main_page(root, commands)}};
            for (const auto& command : commands) pages.emplace_back("ddlbench-" + command.name, page_of(command));
            if (!options->folder.empty()) {
              std::error_code failed;
              std::filesystem::create_directories(options->folder, failed);
              for (const auto& [name, text] : pages) write_file(fmt::format("{}/{}.1", options->folder, name), text);
              if (options->output.json)
                options->output.document({{"schema", "ddlbench.man/1"}, {"folder", options->folder}, {"pages", pages.size()}});
              options->output.say(fmt::format("{} pages in {}", pages.size(), options->folder));
              return Exit::ok;
            }
            const auto wanted = options->command.empty() ? "ddlbench" : "ddlbench-" + options->command;
            for (const auto& [name, text] : pages)
              if (name == wanted) {
                if (options->output.json)
                  options->output.document({{"schema", "ddlbench.man/1"}, {"name", name}, {"text", text}});
                else
                  options->output.data(text);
                return Exit::ok;
              }
            throw Error(Code::not_found, fmt::format("man: no such command; got '{}'", options->command));
          }};
}

}  // namespace ddl
