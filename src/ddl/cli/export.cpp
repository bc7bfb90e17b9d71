#include "ddl/report/export.h"

#include <unistd.h>

#include "ddl/cli/command.h"
#include "ddl/cli/exported.h"
#include "ddl/cli/recorder.h"
#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

struct ExportOptions {
  Output output;
  std::string run = "latest", format = "json", store = "ddlbench.db", file = "-";
};

Exit act(const ExportOptions& options) {
  const auto exporters = builtin_exporters();
  const auto& exporter = exporters.at(options.format).make;
  const bool to_output = options.file == "-";
  if (to_output && exporter.folder)
    throw Error(Code::invalid_argument, fmt::format("-o: '{}' is a folder of files; got -, expected a name for it, -o FOLDER", options.format));
  if (to_output && exporter.binary && ::isatty(STDOUT_FILENO) != 0)
    throw Error(Code::invalid_argument, fmt::format("-o: '{}' is not text; got a terminal, expected a file, -o FILE, or a pipe", options.format));
  if (options.output.json && to_output && options.format != "json")
    throw Error(Code::invalid_argument, fmt::format("--format: standard output cannot hold '{}' and be one JSON document; expected json, "
                                                    "or a file with -o", options.format));
  const auto files = exporter.files(open_existing(options.store).get(options.run));
  if (to_output) {
    options.output.data(files.front().text);
    return Exit::ok;
  }
  std::size_t bytes = 0;
  for (const auto& file : files) bytes += file.text.size();
  Json document{{"schema", "ddlbench.export/1"}, {"file", options.file}, {"format", options.format}, {"bytes", bytes}};
  if (const auto names = write_exported(exporter, files, options.file); exporter.folder) document["files"] = names;
  if (options.output.json) options.output.document(document);
  options.output.say("written: " + options.file);
  return Exit::ok;
}

}  // namespace

Command add_export(CLI::App& root) {
  auto options = std::make_shared<ExportOptions>();
  auto* app = add_command(root, "export", "Print a run's record in another form.", options->output,
                          {"ddlbench export latest", "ddlbench export latest --format csv",
                           "ddlbench export latest --format chrome -o trace.json", "ddlbench export latest --format perfetto -o trace.pftrace",
                           "ddlbench export latest --format hta -o traces"});
  app->add_option("run", options->run, "Run by id, a unique beginning of one, or 'latest'.")->type_name("RUN")->capture_default_str();
  app->add_option("--format", options->format, "Form of the output.")
      ->type_name(join(builtin_exporters().names(), "|"))->capture_default_str();
  app->add_option("--store", options->store, "Results store.")->type_name("FILE")->capture_default_str();
  app->add_option("-o,--output", options->file, "File to write, or folder where the form is one; - for standard output.")->type_name("FILE")->capture_default_str();
  return {app, [options] { return act(*options); }};
}

}  // namespace ddl
