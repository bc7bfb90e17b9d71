#pragma once

#include <vector>

#include "ddl/core/spec.h"
#include "ddl/plan/plan.h"
#include "ddl/predict/closed/terms.h"
#include "ddl/predict/step/step_costs.h"

namespace ddl {

/// Whether micro-batches of one share go to several workers: of a stage, which take them by turns, or replicas that one worker leads. Who waits for whom then is in no sum.
bool takes_turns(const Plan& plan);

/// Micro-batches that a worker of each role has: of those that several take by turns its own.
std::vector<int> passes_of(const Plan& plan);

/// What the tasks of each role come to, in the order of its workers. `costs` are of roles_as_actors(); else: invalid_argument.
std::vector<WorkerTerms> terms_of(const Plan& plan, const StepCosts& costs);

/// Whether a role's parameters are gathered unit by unit (`sharded` level 3), and what those of a plan's one role come to.
bool gathers_units(const Role& role);
UnitTerms unit_terms_of(const Plan& plan, const Spec& strategy, const StepCosts& costs);

/// By server, and role of workers. A message takes what the longer of its two ends says; where workers step apart the server's end, which is of all workers of a role, says nothing of one.
std::vector<ServerTerm> server_terms_of(const Plan& plan, const StepCosts& costs);

}  // namespace ddl
