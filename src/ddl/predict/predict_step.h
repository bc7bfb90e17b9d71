#pragma once

#include <string>
#include <vector>

#include "ddl/core/spec.h"
#include "ddl/measure/ledger.h"
#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"
#include "ddl/predict/step/cost_source.h"

namespace ddl {

enum class Engine {
  automatic,  ///< the simulator, or, of plans with more tasks than it runs in about a second, the closed form
  closed,
  simulated,
};

/// What there is to predict: a plan, of whose network each worker has `graph` (its part, where layers are split).
struct PredictionInput {
  const Plan& plan;
  const ModelGraph& graph;
  const Spec& strategy;
  std::int64_t batch = 1;
  const CostSource& source;
  double sigma = 0;          ///< of the logarithm of measured over predicted
  Engine engine = Engine::automatic;
  bool by_worker = false;    ///< of the simulator: workers that share cores or memory slow each other down, and one cannot stand for the others
  Loading loading = {};
  bool unlike = false;       ///< workers of one role may take unlike times for the same: neither engine lets one stand for the others
  bool steady = false;       ///< a step as it usually is: without what differs from one to the next
};

struct StepPrediction {
  double seconds = 0, low = 0, high = 0;  ///< of a step; 90 % interval. Of workers that step apart: in which all together do as many as they are
  Engine engine = Engine::simulated;      ///< that was taken
  std::vector<Ledger> roles;              ///< of a worker of each role
  Ledger mean;                            ///< over workers
  bool alone = false;                     ///< by the closed form, of tasks that share cores, memory or wires with others: as if each had them for itself
  Holdings most;                          ///< of the worker that holds most, as planned
  Trace trace;                            ///< of a step, or of those that run into each other, one worker by role unless asked for by_worker; of the simulator alone
};

/// Whether Engine::closed prices it: not workers that take unlike times, or are at several places, and do not wait for each other.
bool has_closed_form(const PredictionInput& input);

/// Errors: those of the source, naming the term that is missing; unsupported where Engine::closed is asked for what has_closed_form() says has none.
StepPrediction predict_step(const PredictionInput& input);

}  // namespace ddl
