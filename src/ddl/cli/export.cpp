#include "ddl/report/export.h"

#include "ddl/cli/command.h"
#include "ddl/cli/recorder.h"
#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

struct Options {
  Output output;
  std::string run = "latest", format = "json", store = "ddlbench.db", file = "-";
};

Exit act(const Options& options) {
  const auto exporters = builtin_exporters();
  const auto& exporter = exporters.at(options.format);
  if (options.output.json && options.file == "-" && options.format != "json")
    throw Error(Code::invalid_argument, fmt::format("--format: standard output cannot hold '{}' and be one JSON document; expected json, "
                                                    "or a file with -o", options.format));
  auto text = exporter.make(open_existing(options.store).get(options.run));
  if (!text.ends_with('\n')) text += '\n';
  if (options.file == "-") {
    options.output.data(text);
  } else {
    write_file(options.file, text);
    if (options.output.json)
      options.output.document({{"schema", "ddlbench.export/1"}, {"file", options.file}, {"format", options.format}, {"bytes", text.size()}});
    options.output.say("written: " + options.file);
  }
  return Exit::ok;
}

}  // namespace

Command add_export(CLI::App& root) {
  auto options = std::make_shared<Options>();
  auto* app = add_command(root, "export", "Print a run's record in another form.", options->output,
                          {"ddlbench export latest", "ddlbench export latest --format csv",
                           "ddlbench export latest --format chrome -o trace.json"});
  app->add_option("run", options->run, "Run by id, a unique beginning of one, or 'latest'.")->type_name("RUN")->capture_default_str();
  app->add_option("--format", options->format, "Form of the output.")
      ->type_name(join(builtin_exporters().names(), "|"))->capture_default_str();
  app->add_option("--store", options->store, "Results store.")->type_name("FILE")->capture_default_str();
  app->add_option("-o,--output", options->file, "File to write; - for standard output.")->type_name("FILE")->capture_default_str();
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
