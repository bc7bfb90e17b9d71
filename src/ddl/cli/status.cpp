#include <algorithm>
#include <map>

#include "ddl/cli/command.h"
#include "ddl/cli/recorder.h"
#include "ddl/core/error.h"

namespace ddl {
namespace {

struct StatusOptions {
  Output output;
  std::string study, store = "ddlbench.db";
};

Exit act(const StatusOptions& options) {
  auto store = open_existing(options.store);
  store.settle();
  const auto rows = store.rows(options.study);
  if (rows.empty() && !options.study.empty())
    throw Error(Code::not_found, fmt::format("[status] {} has no study '{}'", options.store, options.study));
  std::map<std::string, int> counts;
  Json runs = Json::array();
  std::vector<std::vector<std::string>> table{{"id", "state", "study", "case", "started"}};
  for (const auto& row : rows) {
    ++counts[row.state];
    runs.push_back({{"id", row.id}, {"identity", row.identity}, {"study", row.study}, {"case", row.name}, {"state", row.state},
                    {"started", row.started}});
    table.push_back({row.id, row.state, row.study, row.name, row.started});
  }
  if (options.output.json) {
    options.output.document({{"schema", "ddlbench.status/1"}, {"store", options.store}, {"counts", counts}, {"runs", runs}});
    return Exit::ok;
  }
  options.output.data(columns(table));
  std::string summary;
  for (const auto& [state, count] : counts) summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", count, state);
  options.output.say(summary.empty() ? "no runs yet" : summary);
  return Exit::ok;
}

}  // namespace

Command add_status(CLI::App& root) {
  auto options = std::make_shared<StatusOptions>();
  auto* app = add_command(root, "status", "Show the runs of a store, also while a sweep goes on in another shell.", options->output,
                          {"ddlbench status", "ddlbench status first --json"});
  app->add_option("study", options->study, "Name of a study. Without one, all runs.")->type_name("STUDY");
  app->add_option("--store", options->store, "Results store.")->type_name("FILE")->capture_default_str();
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
