#pragma once

#include <functional>
#include <vector>

#include "ddl/predict/step/step_costs.h"

namespace ddl {

/// Whether a plan's workers are on several nodes or hosts. `place`: by worker, which.
bool at_several_places(const Plan& plan, const std::function<int(int worker)>& place);

/// One actor for each role, as roles_as_actors(), but standing for its role the worker that has most to do over wires: who waits for others waits for that one. Where all of a role lie alike, the first.
/// Cost: in proportion to workers, and to the groups and peers that their roles have.
std::vector<Actor> placed_actors(const Plan& plan, const std::function<int(int worker)>& place);

}  // namespace ddl
