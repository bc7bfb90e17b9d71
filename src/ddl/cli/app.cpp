#include "ddl/cli/app.h"

#include <new>

#include "ddl/cli/command.h"
#include "ddl/cli/suggest.h"
#include "ddl/core/error.h"
#include "ddl/lab/build_info.h"

namespace ddl {
namespace {

std::string version() {
  const auto build = build_info();
  const auto commit = build["commit"].is_string() ? build["commit"].get<std::string>().substr(0, 12) : "no commit";
  return fmt::format("ddlbench {} ({}{}, {}, torch {})", build["version"].get<std::string>(), commit,
                     build["dirty"].get<bool>() ? ", changed" : "", build["compiler"].get<std::string>(),
                     build["torch"].get<std::string>());
}

std::vector<Command> add_commands(CLI::App& root, AgentHub* launched) {
  return {add_run(root, launched), add_sweep(root, launched), add_probe(root, launched), add_status(root), add_resume(root, launched),
          add_predict(root), add_explain(root), add_advise(root), add_validate(root), add_list(root), add_doctor(root), add_env(root), add_report(root), add_export(root), add_selftest(root), add_completion(root),
          add_man(root)};
}

Exit parse_and_act(int argc, const char* const* argv, AgentHub* launched) {
  CLI::App root("Benchmarks distributed deep learning: trains, measures where the time goes, compares.", "ddlbench");
  root.set_version_flag("--version", version(), "Print what this binary was built from.");
  root.set_help_flag("-h,--help", "Print this help.");
  root.require_subcommand(1, 1);
  root.footer("Examples:\n  ddlbench list models\n  ddlbench run --model lenet --steps 20 --synthetic\n"
              "  ddlbench sweep studies/first.yaml\nExit codes: 0 ok, 1 failure, 2 usage or configuration, 4 some experiments "
              "failed, 6 not possible here, 124 timeout, 130 interrupted.");
  const auto commands = add_commands(root, launched);
  const Output output;
  try {
    root.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    output.data(root.help());
    return Exit::ok;
  } catch (const CLI::CallForVersion&) {
    output.data(version() + "\n");
    return Exit::ok;
  } catch (const CLI::ParseError& error) {
    print_error(explain(root, error));
    return Exit::usage;
  }
  for (const auto& command : commands)
    if (command.app->parsed()) return command.act();
  return Exit::usage;
}

}  // namespace

int run_command_line(int argc, const char* const* argv, AgentHub* launched) {
  Exit code = Exit::failure;
  try {
    code = parse_and_act(argc, argv, launched);
  } catch (const Error& error) {
    print_error(error.what());
    code = exit_for(error.code());
  } catch (const std::bad_alloc&) {
    print_error("out of memory");
  } catch (const std::exception& error) {
    print_error(error.what());
  }
  return static_cast<int>(code);
}

}  // namespace ddl
