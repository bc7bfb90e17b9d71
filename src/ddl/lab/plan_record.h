#pragma once

#include "ddl/core/json.h"
#include "ddl/core/spec.h"
#include "ddl/lab/step_book.h"
#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"
#include "ddl/strategy/pipeline/schedules.h"

namespace ddl {

/// What passes took on the mean of all workers and steps; where backward came in one piece, half of it for each of its two parts. Only their
/// proportions are of use: a worker may do several passes a step.
PassSeconds mean_passes(const StepBook& book);

/// The plan as docs/record.md has it: what a reader of a trace needs to name, colour and join its spans, role by role, and of a pipeline the
/// bubble that its schedule would have, were all stages equal, in `passes`.
Json plan_json(const Spec& strategy, const Plan& plan, const PassSeconds& passes);

/// What each stage of a plan is: how many layers, inputs not counted, from which on, and which ranks have it. null of a network in one piece, and of split ones.
Json stages_json(const ModelGraph& graph, const Plan& plan);

}  // namespace ddl
