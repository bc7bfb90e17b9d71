#include "ddl/report/export.h"

#include <unistd.h>

#include <filesystem>

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

/// Writes what is called by name into the folder `options.file`, made where it is not there; returns the names.
std::vector<std::string> write_folder(const Options& options, const std::vector<ExportedFile>& files) {
  std::error_code failed;
  std::filesystem::create_directories(options.file, failed);
  if (failed) throw Error(Code::io, fmt::format("-o: cannot make the folder '{}': {}", options.file, failed.message()));
  std::vector<std::string> names;
  for (const auto& [name, text] : files) {
    write_file((std::filesystem::path(options.file) / name).string(), text);
    names.push_back(name);
  }
  return names;
}

Exit act(const Options& options) {
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
  if (exporter.folder)
    document["files"] = write_folder(options, files);
  else
    write_file(options.file, files.front().text);
  if (options.output.json) options.output.document(document);
  options.output.say("written: " + options.file);
  return Exit::ok;
}

}  // namespace

Command add_export(CLI::App& root) {
  auto options = std::make_shared<Options>();
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
