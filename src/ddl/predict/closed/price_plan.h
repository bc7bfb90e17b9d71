#pragma once

#include "ddl/core/spec.h"
#include "ddl/predict/closed/terms.h"
#include "ddl/predict/step/step_costs.h"

namespace ddl {

/// Whether there is a closed form: of all plans whose workers take the same time. `unlike`: workers of a role take unlike times, or exchanges do; then not of those that do not wait for each other.
bool has_closed_form(const Plan& plan, bool unlike);

/// Of costs of workers_as_actors() those of roles_as_actors() that a step of the plan goes by where workers of a role take unlike times: of each role who computes longest, for whom the others wait. `count` is how many
/// take as long but for what jitter makes of it.
StepCosts of_slowest(const Plan& plan, const StepCosts& costs);

/// A step of the plan, which `strategy` made, in closed form; ledgers by role. What it assumes, beside each strategy's derivation in docs/model.md: workers of a role take the same time (or wait for the slowest, of_slowest()), and
/// nothing that is under way at once shares a resource.
/// Errors: invalid_argument for costs that are not of the plan's roles.
PricedStep price_plan(const Plan& plan, const Spec& strategy, const StepCosts& costs);

}  // namespace ddl
