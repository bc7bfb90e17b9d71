#include <map>

#include "ddl/cli/command.h"
#include "ddl/cli/sweep.h"
#include "ddl/core/error.h"
#include "ddl/lab/build_info.h"

namespace ddl {
namespace {

struct Options {
  Output output;
  std::string study, store = "ddlbench.db", report;
  bool allow_build_change = false;
};

std::string newest_study(const Store& store) {
  const auto rows = store.rows();
  for (auto row = rows.rbegin(); row != rows.rend(); ++row)
    if (!row->study.empty()) return row->study;
  throw Error(Code::not_found, fmt::format("[resume] {} holds no study; start one with: ddlbench sweep STUDY.yaml", store.path()));
}

Exit act(const Options& options) {
  open_existing(options.store);
  Recorder recorder(options.store, options.output);
  auto& store = *recorder.store();
  const auto study = options.study.empty() ? newest_study(store) : options.study;
  const auto rows = store.rows(study);
  if (rows.empty()) throw Error(Code::not_found, fmt::format("[resume] {} has no study '{}'", options.store, study));

  // The newest record of each experiment tells what was asked for; whether it is done is for plan_runs to find.
  std::map<std::string, std::size_t> seen;
  std::vector<Experiment> experiments;
  for (const auto& row : rows) {
    const auto record = store.get(row.id);
    auto experiment = experiment_of(record);
    if (row.state != "ok" && record.value("build", Json()) != build_info() && !options.allow_build_change)
      throw Error(Code::invalid_argument, fmt::format("[resume] run {} was planned with another build; got {}, expected {} "
                                                      "(--allow-build-change goes on)", row.id, record.value("build", Json()).dump(), build_identity()));
    if (seen.emplace(identity(experiment, "", ""), experiments.size()).second) experiments.push_back(std::move(experiment));
  }
  return run_study(study, "", plan_runs(experiments, &store, false), recorder, options.report, options.output);
}

}  // namespace

Command add_resume(CLI::App& root) {
  auto options = std::make_shared<Options>();
  auto* app = add_command(root, "resume", "Go on with a study that was interrupted.", options->output,
                          {"ddlbench resume", "ddlbench resume first --report report.html"});
  app->add_option("study", options->study, "Name of the study. Without one, the newest in the store.")->type_name("STUDY");
  app->add_option("--store", options->store, "Results store.")->type_name("FILE")->capture_default_str();
  app->add_option("--report", options->report, "Write an offline HTML page about the study.")->type_name("FILE");
  app->add_flag("--allow-build-change", options->allow_build_change, "Go on with another build than the study began with.");
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
