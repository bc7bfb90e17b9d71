#pragma once

#include <functional>
#include <string>

#include "ddl/core/json.h"
#include "ddl/core/registry.h"

namespace ddl {

/// A record in another form, as the text of a file.
/// Errors: not_found where the record lacks what the format needs (chrome without a trace, csv without step times).
using Exporter = std::function<std::string(const Json& record)>;

/// json: the record itself; csv: a row per rank and step with its time; csv-summary: one line per record, with the
/// ledger's means over the workers; chrome: trace events for chrome://tracing and Perfetto.
Registry<Exporter> builtin_exporters();

// One file each; every field that a record lacks is an empty cell.
std::string export_json(const Json& record);
std::string export_csv(const Json& record);
std::string export_csv_summary(const Json& record);
/// pid is the rank and tid the stream. Spans of one stream that overlap without nesting, which viewers drop without a
/// word, go to a further lane of that stream.
std::string export_chrome(const Json& record);

}  // namespace ddl
