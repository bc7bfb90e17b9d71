#pragma once

#include <string>
#include <vector>

#include "ddl/report/export.h"

namespace ddl {

/// Writes a record in an exporter's form: into one file, or into a folder of that name, made where it is not there. Returns the names of the folder's files; of one file none.
/// Errors: the exporter's; io.
std::vector<std::string> write_exported(const Exporter& exporter, const std::vector<ExportedFile>& files, const std::string& path);

}  // namespace ddl
