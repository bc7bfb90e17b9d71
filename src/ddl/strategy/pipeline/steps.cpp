#include "ddl/strategy/pipeline/steps.h"

#include <algorithm>

namespace ddl {

std::vector<Action> warm_up(const PipelineOrder& order, int worker, int steps) {
  const auto& actions = order.actions.at(static_cast<std::size_t>(worker));
  int furthest = 0;
  for (const Action& action : actions) furthest = std::max(furthest, action.ahead);
  std::vector<Action> before;
  for (int batch = 0; batch < std::min(furthest, steps); ++batch)
    for (Action action : actions)
      if (action.ahead > batch) {
        action.ahead = batch;
        before.push_back(action);
      }
  return before;
}

std::vector<Action> step_actions(const PipelineOrder& order, int worker, int step, int steps) {
  std::vector<Action> actions;
  for (const Action& action : order.actions.at(static_cast<std::size_t>(worker)))
    if (step + action.ahead < steps) actions.push_back(action);
  return actions;
}

PipelineOrder unroll(const PipelineOrder& order, int micro_batches, int steps) {
  PipelineOrder all{order.worker_of_stage, {}, order.replicas};
  for (int worker = 0; worker < order.workers(); ++worker) {
    auto& actions = all.actions.emplace_back();
    const auto append = [&](Action action, int step) {
      action.micro_batch += (step + action.ahead) * micro_batches;
      action.ahead = 0;
      actions.push_back(action);
    };
    for (const Action& action : warm_up(order, worker, steps)) append(action, 0);
    for (int step = 0; step < steps; ++step)
      for (const Action& action : step_actions(order, worker, step, steps)) append(action, step);
  }
  return all;
}

}  // namespace ddl
