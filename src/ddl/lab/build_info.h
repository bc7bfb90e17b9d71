#pragma once

#include "ddl/core/json.h"

namespace ddl {

/// What this binary was built from and with, as the record keeps it: version, commit (null outside git), dirty, changes
/// (a hash of what differs from the commit; null where nothing does), compiler, torch, type.
Json build_info();

/// The part of it that can change a measurement, in one line: what identity() takes.
std::string build_identity();

}  // namespace ddl
