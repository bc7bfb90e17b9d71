#include "ddl/report/report.h"

#include "ddl/cli/command.h"
#include "ddl/cli/explained.h"
#include "ddl/cli/recorder.h"
#include "ddl/core/error.h"

namespace ddl {
namespace {

struct ReportOptions {
  Output output;
  std::vector<std::string> runs;
  std::string study, store = "ddlbench.db", file = "report.html";
  bool unequal_batch = false;
};

std::vector<Json> chosen(const ReportOptions& options, const Store& store) {
  std::vector<Json> records;
  for (const auto& id : options.runs) records.push_back(store.get(id));
  if (options.runs.empty())
    for (const auto& row : store.rows(options.study))
      if (!row.started.empty()) records.push_back(store.get(row.id));
  if (records.empty())
    throw Error(Code::not_found, fmt::format("[report] {} holds no run{} that has begun", options.store,
                                             options.study.empty() ? "" : " of study '" + options.study + "'"));
  return records;
}

Exit act(const ReportOptions& options) {
  if (options.output.json && options.file == "-")
    throw Error(Code::invalid_argument, "--output: standard output cannot hold a page and be one JSON document; got -, expected a file");
  const auto store = open_existing(options.store);
  const auto records = chosen(options, store);
  const auto why = explained(records, &store);
  const auto page = render_report(records, options.unequal_batch ? Batches::together : Batches::apart, why.documents, why.note);
  if (options.file == "-") {
    options.output.data(page);
    return Exit::ok;
  }
  write_file(options.file, page);
  if (options.output.json)
    options.output.document({{"schema", "ddlbench.report/1"}, {"file", options.file}, {"runs", records.size()}, {"bytes", page.size()}});
  options.output.say(fmt::format("{} {} in {}", records.size(), records.size() == 1 ? "run" : "runs", options.file));
  return Exit::ok;
}

}  // namespace

Command add_report(CLI::App& root) {
  auto options = std::make_shared<ReportOptions>();
  auto* app = add_command(root, "report", "Write one offline HTML page about runs.", options->output,
                          {"ddlbench report", "ddlbench report latest -o latest.html", "ddlbench report --study first"});
  app->add_option("runs", options->runs, "Runs by id, a unique beginning of one, or 'latest'. Without one, all.")->type_name("RUN");
  app->add_option("--study", options->study, "All runs of a study.")->type_name("STUDY");
  app->add_option("--store", options->store, "Results store.")->type_name("FILE")->capture_default_str();
  app->add_option("-o,--output", options->file, "File to write; - for standard output.")->type_name("FILE")->capture_default_str();
  app->add_flag("--unequal-batch", options->unequal_batch, "Put runs of different global batches into the same tables and figures.");
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
