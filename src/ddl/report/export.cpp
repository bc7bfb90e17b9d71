#include "ddl/report/export.h"

#include <fmt/format.h>

#include "ddl/report/escape.h"
#include "ddl/report/run_view.h"

namespace ddl {
namespace {

Exporter one_file(std::string (*text)(const Json&), bool binary = false) {
  return {[text](const Json& record) { return std::vector<ExportedFile>{{"", text(record)}}; }, false, binary};
}

}  // namespace

std::string export_json(const Json& record) { return json_text(record, 2) + "\n"; }

Error no_trace(const Json& record, std::string_view format) {
  return Error(Code::not_found, fmt::format("[export] run {} holds no trace, which {} is made of; expected a run with --trace recent or all",
                                            text_at(record, {"id"}), format));
}

Registry<Exporter> builtin_exporters() {
  Registry<Exporter> exporters("format");
  exporters.add({"json", "the whole run record", one_file(export_json)});
  exporters.add({"csv", "a row per rank and step with its time", one_file(export_csv)});
  exporters.add({"csv-summary", "one line per run", one_file(export_csv_summary)});
  exporters.add({"chrome", "trace events for Perfetto and chrome://tracing", one_file(export_chrome)});
  exporters.add({"perfetto", "the same in Perfetto's own format", one_file(export_perfetto, true)});
  exporters.add({"hta", "a folder of traces for Holistic Trace Analysis, one a rank", {export_hta, true, false}});
  exporters.add({"chakra", "a folder of MLCommons Chakra execution traces of one step, one a rank", {export_chakra, true, true}});
  return exporters;
}

}  // namespace ddl
