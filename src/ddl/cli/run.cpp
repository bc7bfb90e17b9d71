#include <optional>

#include "ddl/cli/command.h"
#include "ddl/cli/experiment_flags.h"
#include "ddl/cli/runner.h"
#include "ddl/core/error.h"
#include "ddl/lab/signals.h"

namespace ddl {
namespace {

struct RunOptions {
  Output output;
  std::string file;
  bool dry = false;
  std::unique_ptr<ExperimentFlags> flags;
};

Exit dry_run(const Experiment& experiment, const Output& output) {
  if (output.json) {
    output.document({{"schema", "ddlbench.config/1"}, {"config", experiment.config}, {"provenance", experiment.provenance}});
    return Exit::ok;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, value] : experiment.config.items())
    rows.push_back({key + ":", value.is_string() ? value.get<std::string>() : value.is_null() ? "~" : value.dump(),
                    "# " + experiment.provenance.at(key).get<std::string>()});
  output.data(columns(rows));
  return Exit::ok;
}

Exit act(const RunOptions& options, AgentHub* launched) {
  // From the first line on: a Ctrl-C is an exit code, never a death.
  const SignalsHeld held;
  const auto& output = options.output;
  auto settings = options.file.empty() ? Settings{} : read_experiment(options.file);
  const auto experiment = resolve(merge(std::move(settings), options.flags->settings()));
  check_names(experiment);
  if (options.dry) return dry_run(experiment, output);

  Recorder recorder(experiment.store, output);
  Exit code = Exit::ok;
  Json records = Json::array();
  std::optional<ProgressLine> line(std::in_place, output);
  auto& progress = *line;
  for (int repeat = 0; repeat < experiment.repeat && code == Exit::ok; ++repeat) {
    progress.begin("", repeat + 1, experiment.repeat);
    const Pending pending{experiment, planned_record(experiment, "", "", repeat)};
    records.push_back(run_one(pending, recorder, progress, launched, repeat == 0 ? process_started() : 0));
    code = exit_for_record(records.back());
    if (const int late = SignalsHeld::take(); code == Exit::ok && late != 0)
      code = late == SIGINT ? Exit::interrupted : Exit::terminated;
  }
  line.reset();  // what moves is gone before what stays is written
  if (output.json) output.document(experiment.repeat == 1 ? records.front() : Json{{"schema", "ddlbench.runs/1"}, {"runs", records}});
  if (!output.json) {
    say_results({records.begin(), records.end()}, output);
    if (experiment.store != "none" && recorder.sound())
      output.say(fmt::format("kept as {} in {}", records.back().at("id").get<std::string>(), experiment.store));
  }
  say_failures({records.begin(), records.end()}, output);
  return code == Exit::ok && !recorder.sound() ? Exit::failure : code;
}

}  // namespace

Command add_run(CLI::App& root, AgentHub* launched) {
  auto options = std::make_shared<RunOptions>();
  auto* app = add_command(root, "run", "Run one experiment and keep its record.", options->output,
                          {"ddlbench run --model lenet --steps 20 --synthetic",
                           "ddlbench run --workers 2 --transport tcp --steps 20 --synthetic --store none --json",
                           "mpirun -n 2 ddlbench run --workers 2 --transport mpi --steps 20 --synthetic",
                           "ddlbench run --set model=resnet18 --set steps=5 --synthetic --dry-run"});
  app->add_option("file", options->file, "Experiment in YAML: a mapping of the keys below.")->type_name("FILE");
  app->add_flag("--dry-run", options->dry, "Print the resolved configuration and where each value comes from; run nothing.");
  options->flags = std::make_unique<ExperimentFlags>(*app);
  return {app, [options, launched] { return act(*options, launched); }};
}

}  // namespace ddl
