#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"

namespace ddl {

/// What entries of a part of a machine profile ("compute", "optimizer", …) are told apart by: of two that say the same under all of these one is the other measured again. Errors: not_found for a part that profiles do not have.
const std::vector<std::string>& entry_keys(const std::string& part);

/// Puts what was measured in `other` into `machine`, part by part. Of two of the same the one that was measured later stays; where either does not say when, other's. Returns how many entries came in.
/// Errors: invalid_argument where they are of different processors; corrupt where a part is no list of entries.
int merge_machine(Json& machine, const Json& other);

}  // namespace ddl
