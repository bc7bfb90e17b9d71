#pragma once

#include <cstdint>

#include "ddl/plan/plan.h"

namespace ddl {

/// Whether a task is done in step number `step` of a run, from 0 on; `last`: the run ends after it.
/// One that is left out counts as done once what it is after is, so that the others keep their order. verify() looks at a step in which all are done: one that
/// lacks some has fewer waits, in the same order.
constexpr bool is_due(const Plan& plan, const Task& task, std::int64_t step, bool last) {
  if (last && task.at_end && plan.local_from != kNone && step >= plan.local_from) return true;
  if (task.first_step == kNone || step < task.first_step || (task.until_step != kNone && step >= task.until_step)) return false;
  return (step - task.first_step) % task.every == 0;
}

/// In how many of all steps of a long run it is done.
constexpr double share_of_steps(const Task& task) { return task.first_step == kNone || task.until_step != kNone ? 0 : 1.0 / (task.every > 1 ? task.every : 1); }

/// Whether workers follow gradients of their own in that step.
constexpr bool is_local(const Plan& plan, std::int64_t step) { return plan.local_from != kNone && step >= plan.local_from; }

}  // namespace ddl
