#pragma once

#include "ddl/core/json.h"

namespace ddl {

/// Puts what was measured in `other` into `machine`, part by part. Of two of the same the one that was measured later stays; where either does not say when, other's; it remembers what both of them
/// say of earlier ones (`history`). Of what the device has, what `machine` does not say comes in. Returns how many entries came in.
/// Errors: invalid_argument where they are of different processors; corrupt where a part is no list of entries.
int merge_machine(Json& machine, const Json& other);

}  // namespace ddl
