#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/strategy/builtin.h"

namespace ddl {

// The tasks that strategies are made of. What is returned is to be appended, and not yet after anything unless it is said.

/// Appends a task. Returns its number.
int add(Role& role, Task task);

/// load, then forward and backward of a whole network on one worker, for each micro-batch. The last is the backward that
/// completes the gradients.
std::vector<Task> compute_tasks(const StrategyInput& input);

/// What the workers of a group do together; how many bytes is for the caller to fill in.
Task collective(Goal goal, Cargo cargo, int group, std::string label);
/// The same of all of a bucket of the role.
Task collective(Goal goal, Cargo cargo, int group, const Role& role, int bucket, std::string label);
/// The sum of a bucket's gradients over a group. Its bytes are counted among what the role holds.
Task reduction(Role& role, int bucket, int group = 0);
/// What everybody must know of everybody (Cargo::control), told in group 0: after task `backward`, and after all `reductions` of gradients where an update
/// reads the whole of them.
Task control(const StrategyInput& input, int backward, const std::vector<int>& reductions);

/// Of a bucket; kNone: of what is in none.
Task update(int bucket, std::vector<int> after);
/// Appends an update of each bucket after task `backward`, and, unless `reductions` is kNone, after the bucket's reduction, which is task `reductions` + bucket, or after
/// those of all where an update reads the whole gradient. Returns their numbers.
std::vector<int> append_updates(const StrategyInput& input, Role& role, int backward, int reductions);

}  // namespace ddl
