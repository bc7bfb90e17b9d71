#pragma once

#include <string>

#include "ddl/core/json.h"

namespace ddl {

/// Reads all entries of a machine profile over, for the terms that predictions need of each, and what it says of its device and nodes. `path`: where the profile was read from.
/// Errors: not_found for an entry that lacks one, corrupt for one that is another thing than its term; both name file, entry and term, what was got and expected, and the probe that measures it.
void require_terms(const Json& machine, const std::string& path);

}  // namespace ddl
