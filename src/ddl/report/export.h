#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/core/json.h"
#include "ddl/core/registry.h"

namespace ddl {

/// A file that an export consists of.
struct ExportedFile {
  std::string name;  ///< within a folder; empty where the export is one file, which is called as the user says
  std::string text;
};

/// A record in another form: one file without a name, or a folder of them.
/// Errors: not_found where the record lacks what the format needs (traces, step times).
struct Exporter {
  std::function<std::vector<ExportedFile>(const Json& record)> files;
  bool folder = false;
  bool binary = false;
};

/// json: the record itself; csv: a row per rank and step with its time; csv-summary: one line per record, with the
/// ledger's means over the workers; chrome and perfetto: the trace for viewers; hta: the trace for Holistic Trace Analysis, a file per rank; chakra: a step as MLCommons' execution
/// traces, a file per rank.
Registry<Exporter> builtin_exporters();

// One file each; every field that a record lacks is an empty cell.
std::string export_json(const Json& record);
std::string export_csv(const Json& record);
std::string export_csv_summary(const Json& record);
/// Trace events. pid is the rank and tid a lane of its (lanes.h), 0 its steps; arrows from where messages are sent to where they are received.
std::string export_chrome(const Json& record);
/// Perfetto's own format, a stream of TracePacket: the same lanes, steps and arrows.
std::string export_perfetto(const Json& record);
std::vector<ExportedFile> export_hta(const Json& record);
/// MLCommons' Chakra: the last step that all ranks went through, a graph of nodes per rank.
std::vector<ExportedFile> export_chakra(const Json& record);

/// What exporters of traces throw of a record that holds none.
Error no_trace(const Json& record, std::string_view format);

}  // namespace ddl
