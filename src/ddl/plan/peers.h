#pragma once

#include "ddl/plan/plan.h"

namespace ddl {

/// Which worker a worker's message goes to or comes from: the one abreast in role Task::peer, or, within a role, the one that
/// Task::shift or Task::flip say. kNone where there is no such.
int peer_of(const Plan& plan, int worker, const Task& task);

/// Task::shift as a number of places from 0 to `count` - 1.
constexpr int places(int shift, int count) { return count < 1 ? 0 : (shift % count + count) % count; }

}  // namespace ddl
