#include "ddl/cli/sweep.h"

#include <algorithm>

#include "ddl/cli/command.h"
#include "ddl/cli/explained.h"
#include "ddl/cli/experiment_flags.h"
#include "ddl/cli/plan.h"
#include "ddl/cli/predicted.h"
#include "ddl/core/error.h"
#include "ddl/lab/comparable.h"
#include "ddl/lab/signals.h"
#include "ddl/measure/clock.h"

namespace ddl {
namespace {

struct SweepOptions {
  Output output;
  std::string file, report, machine, jobs = "local";
  bool fresh = false, dry = false, predict_only = false, unequal_batch = false;
  std::unique_ptr<ExperimentFlags> flags;
};

void refuse_what_is_not_here(const SweepOptions& options) {
  if (!options.machine.empty() && !options.predict_only)
    throw Error(Code::invalid_argument, fmt::format("--machine: a sweep that runs does so here; got '{}', expected it with --predict-only", options.machine));
  if (options.jobs == "slurm")
    throw Error(Code::unsupported, "--jobs: unsupported: slurm is not in this version; got 'slurm', expected local");
  if (options.jobs != "local")
    throw Error(Code::invalid_argument, fmt::format("--jobs: unknown choice; got '{}', expected local", options.jobs));
}

Exit dry_run(const Study& study, const Output& output) {
  Json all = Json::array();
  std::vector<std::vector<std::string>> rows{{"case", "runs"}};
  for (const auto& experiment : study.experiments) {
    all.push_back({{"case", experiment.name}, {"config", experiment.config}, {"provenance", experiment.provenance}});
    rows.push_back({experiment.name, std::to_string(experiment.repeat)});
  }
  if (output.json)
    output.document({{"schema", "ddlbench.study/1"}, {"study", study.name}, {"digest", study.digest}, {"experiments", all}});
  else
    output.data(columns(rows));
  return Exit::ok;
}

Exit predict(const Study& study, const std::string& asked, const Output& output) {
  const auto begin = now();
  const auto machine = machine_called(asked);
  std::vector<PredictedPoint> points;
  for (const auto& experiment : study.experiments) points.push_back(predict_point(experiment, machine));
  if (output.json) {
    auto document = predicted_json(points, machine, asked, "auto", seconds(now() - begin));
    document["study"] = study.name;
    output.document(document);
  } else {
    say_predicted(points, machine, true, output);
  }
  for (const auto& point : points)
    if (!point.found) output.say(fmt::format("{}: {}", point.experiment.name, point.reason));
  return exit_for_predicted(points);
}

Exit act(const SweepOptions& options, AgentHub* launched) {
  // From the first line on: a Ctrl-C is an exit code, never a death.
  const SignalsHeld held;
  refuse_what_is_not_here(options);
  const auto study = read_study(find_study(options.file), options.flags->settings());
  if (!options.unequal_batch) require_equal_batches(study.experiments);
  const auto& store = study.experiments.front().store;
  for (const auto& experiment : study.experiments) {
    if (experiment.store != store)
      throw Error(Code::invalid_argument, fmt::format("{}: store: one study has one store; got '{}' and '{}', expected the same",
                                                      experiment.provenance.at("store").get<std::string>(), experiment.store, store));
    // What is predicted need not fit this machine.
    if (!options.predict_only) check_names(experiment);
  }
  if (options.dry) return dry_run(study, options.output);
  if (options.predict_only) return predict(study, options.machine, options.output);
  Recorder recorder(store, options.output);
  return run_study(study.name, study.digest, plan_runs(study.experiments, recorder.store(), options.fresh), recorder,
                   {options.report, options.unequal_batch ? Batches::together : Batches::apart}, options.output, launched);
}

Json line_of(const Json& record) {
  Json line;
  for (const auto* key : {"id", "case", "identity", "repeat", "state", "reason"}) line[key] = record.value(key, Json());
  return line;
}

}  // namespace

Exit run_study(const std::string& name, const std::string& digest, const RunPlan& plan, Recorder& recorder,
               const StudyReport& report, const Output& output, AgentHub* launched) {
  for (const auto& pending : plan.pending) recorder.keep(pending.record);
  if (!plan.done.empty())
    output.say(fmt::format("{} of {} runs are done already (--fresh runs them again)", plan.done.size(),
                           plan.done.size() + plan.pending.size()));
  auto outcome = run_all(plan.pending, recorder, output, launched);
  auto records = plan.done;
  records.insert(records.end(), outcome.records.begin(), outcome.records.end());

  if (!report.file.empty()) {
    try {
      const auto why = explained(records, recorder.store());
      write_file(report.file, render_report(records, report.batches, why.documents, why.note));
      output.say("report: " + report.file);
    } catch (const Error& error) {
      print_error(error.what());
      if (outcome.exit == Exit::ok) outcome.exit = Exit::failure;
    }
  }
  // What the next call will do: all that is not there as it should be.
  const auto undone = std::count_if(outcome.records.begin(), outcome.records.end(), [](const Json& record) { return record.at("state") != "ok"; });
  const auto left = plan.pending.size() - outcome.records.size() + static_cast<std::size_t>(undone);
  if (output.json) {
    Json lines = Json::array();
    for (const auto& record : records) lines.push_back(line_of(record));
    output.document({{"schema", "ddlbench.sweep/1"}, {"study", name}, {"digest", digest}, {"executed", outcome.records.size()},
                     {"done_before", plan.done.size()}, {"left", left},
                     {"report", report.file.empty() ? Json() : Json(report.file)}, {"runs", lines}});
  } else {
    say_results(records, output, report.batches);
  }
  say_failures(outcome.records, output);
  if (plan.pending.empty())
    output.say("zero experiments executed: every one is done already");
  else if (left > 0)
    output.say(fmt::format("{} of {} runs left; go on with: ddlbench resume", left, plan.pending.size()));
  return outcome.exit;
}

Command add_sweep(CLI::App& root, AgentHub* launched) {
  auto options = std::make_shared<SweepOptions>();
  auto* app = add_command(root, "sweep", "Run a study: every experiment of a file that is not done yet.", options->output,
                          {"ddlbench sweep studies/first.yaml", "ddlbench sweep first --fresh --report report.html",
                           "ddlbench sweep studies/first.yaml --steps 5 --epochs 0 --dry-run",
                           "ddlbench sweep first --predict-only --machine v100-16gb"});
  app->add_option("study", options->file, "Study in YAML, or the name of one that ships with ddlbench.")->type_name("STUDY")->required();
  app->add_flag("--fresh", options->fresh, "Run everything again, whatever the store holds.");
  app->add_option("--report", options->report, "Write an offline HTML page about the study.")->type_name("FILE");
  app->add_flag("--unequal-batch", options->unequal_batch, "Compare although global batches differ, as weak scaling does; in the report, too.");
  app->add_option("--jobs", options->jobs, "Where to run.")->type_name("local|slurm")->default_str("local");
  app->add_flag("--predict-only", options->predict_only, "Predict every experiment; run nothing.");
  app->add_option("--machine", options->machine, "With --predict-only, the profile to predict from: a name (ddlbench list machines), or a file; none: this machine's own, as probe measured it.");
  app->add_flag("--dry-run", options->dry, "Print the experiments; run nothing.");
  options->flags = std::make_unique<ExperimentFlags>(*app);
  return {app, [options, launched] { return act(*options, launched); }};
}

}  // namespace ddl
