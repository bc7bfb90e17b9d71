#include "ddl/report/export.h"

#include "ddl/report/escape.h"

namespace ddl {

std::string export_json(const Json& record) { return json_text(record, 2) + "\n"; }

Registry<Exporter> builtin_exporters() {
  Registry<Exporter> exporters("format");
  exporters.add({"json", "the whole run record", export_json});
  exporters.add({"csv", "a row per rank and step with its time", export_csv});
  exporters.add({"csv-summary", "one line per run", export_csv_summary});
  exporters.add({"chrome", "trace events for Perfetto and chrome://tracing", export_chrome});
  return exporters;
}

}  // namespace ddl
