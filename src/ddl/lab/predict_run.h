#pragma once

#include <span>
#include <string>

#include "ddl/core/json.h"
#include "ddl/lab/config.h"
#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// What an experiment is expected to take here, as its record keeps it (`prediction` of docs/record.md): by what probe measured of this machine, whose `environment` it is. Where that cannot
/// be told, `reason` says why, and all else is null. Never throws: no run ends for its prediction.
Json predict_run(const Experiment& experiment, const ModelGraph& graph, const Json& environment);

/// One that says nothing but why.
Json no_prediction(const std::string& reason);

/// What steps take that a prediction is held against: the median; of a plan whose tasks have not all had their turn before k steps (local), the median over rounds of k steps of their mean.
/// `measured`: of the steps after warm-up, one at least, in any unit.
double usual_step(const Plan& plan, std::span<const double> measured);

/// Adds what was measured, and how far off the prediction was. `measured`: milliseconds of the steps after warm-up.
void judge_prediction(Json& prediction, const Plan& plan, std::span<const double> measured);

}  // namespace ddl
