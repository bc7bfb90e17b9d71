#pragma once

#include <string>
#include <vector>

#include "ddl/cli/exit_codes.h"
#include "ddl/cli/output.h"

namespace ddl {

/// `probe merge`: what other profiles of a machine have comes into one. `machine`: its path; "": this machine's own; "none": none is written. Where no file is there the first is begun with.
/// Errors: those of read_machine() and merge_machine(), naming the file.
Exit merge_profiles(const std::vector<std::string>& files, const std::string& machine, const Output& output);

}  // namespace ddl
