#pragma once

#include <string>
#include <vector>

#include "ddl/cli/exit_codes.h"
#include "ddl/cli/output.h"
#include "ddl/lab/config.h"

namespace ddl {

/// `probe import`: execution traces, a file a rank, as computation of a machine profile. `machine`: the profile's path; "": this machine's own; "none": none is written.
/// Errors: those of read_chakra() and import_chakra(); invalid_argument for a profile of another machine than the trace's.
Exit import_traces(const std::vector<std::string>& files, const Settings& told, const std::string& machine, const Output& output);

}  // namespace ddl
