#include <algorithm>
#include <iterator>
#include <map>

#include "ddl/cli/command.h"
#include "ddl/cli/sweep.h"
#include "ddl/core/error.h"
#include "ddl/lab/build_info.h"
#include "ddl/lab/signals.h"

namespace ddl {
namespace {

struct ResumeOptions {
  Output output;
  std::string study, store = "ddlbench.db", report;
  bool allow_build_change = false, unequal_batch = false;
};

std::string newest_study(const Store& store) {
  const auto rows = store.rows();
  for (auto row = rows.rbegin(); row != rows.rend(); ++row)
    if (!row->study.empty()) return row->study;
  throw Error(Code::not_found, fmt::format("[resume] {} holds no study; start one with: ddlbench sweep STUDY.yaml", store.path()));
}

/// Runs of two builds in one study are not comparable; nobody should mix them unawares.
void refuse_other_build(const Json& record) {
  const auto build = record.value("build", Json());
  if (build == build_info()) return;
  throw Error(Code::invalid_argument,
              fmt::format("[resume] run {} was planned with another build; got {}, expected {} (--allow-build-change goes on)",
                          record.at("id").get<std::string>(), build.dump(), build_identity()));
}

Exit act(const ResumeOptions& options, AgentHub* launched) {
  const SignalsHeld held;
  open_existing(options.store);
  Recorder recorder(options.store, options.output);
  auto& store = *recorder.store();
  const auto study = options.study.empty() ? newest_study(store) : options.study;
  const auto rows = store.rows(study);
  if (rows.empty()) throw Error(Code::not_found, fmt::format("[resume] {} has no study '{}'", options.store, study));

  // What was asked for stands in the records themselves; several of one configuration are repeats, or earlier attempts.
  std::map<std::string, std::vector<Json>> attempts;
  std::vector<std::string> order;
  for (const auto& row : rows) {
    auto record = store.get(row.id);
    const auto same = identity(experiment_of(record), "", "");
    if (!attempts.contains(same)) order.push_back(same);
    attempts[same].push_back(std::move(record));
  }
  std::vector<Experiment> unfinished;
  std::vector<Json> done;
  for (const auto& same : order) {
    const auto& records = attempts.at(same);
    auto experiment = experiment_of(records.back());
    std::vector<Json> ok;
    std::copy_if(records.begin(), records.end(), std::back_inserter(ok), [](const auto& record) { return record.at("state") == "ok"; });
    const auto wanted = static_cast<std::size_t>(experiment.repeat);
    if (ok.size() >= wanted) {
      done.insert(done.end(), ok.end() - static_cast<std::ptrdiff_t>(wanted), ok.end());
      continue;
    }
    if (!options.allow_build_change) refuse_other_build(records.back());
    unfinished.push_back(std::move(experiment));
  }
  auto plan = plan_runs(unfinished, &store, false);
  plan.done.insert(plan.done.begin(), done.begin(), done.end());
  return run_study(study, "", plan, recorder, {options.report, options.unequal_batch ? Batches::together : Batches::apart}, options.output, launched);
}

}  // namespace

Command add_resume(CLI::App& root, AgentHub* launched) {
  auto options = std::make_shared<ResumeOptions>();
  auto* app = add_command(root, "resume", "Go on with a study that was interrupted.", options->output,
                          {"ddlbench resume", "ddlbench resume first --report report.html"});
  app->add_option("study", options->study, "Name of the study. Without one, the newest in the store.")->type_name("STUDY");
  app->add_option("--store", options->store, "Results store.")->type_name("FILE")->capture_default_str();
  app->add_option("--report", options->report, "Write an offline HTML page about the study.")->type_name("FILE");
  app->add_flag("--unequal-batch", options->unequal_batch, "Compare runs although their global batches differ.");
  app->add_flag("--allow-build-change", options->allow_build_change, "Go on with another build than the study began with.");
  return {app, [options, launched] { return act(*options, launched); }};
}

}  // namespace ddl
