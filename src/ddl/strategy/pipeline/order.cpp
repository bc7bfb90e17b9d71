#include "ddl/strategy/pipeline/order.h"

#include <algorithm>

#include <fmt/format.h>

namespace ddl {

std::string_view name(Pass pass) {
  switch (pass) {
    case Pass::forward: return "forward";
    case Pass::backward: return "backward";
    case Pass::backward_input: return "backward_input";
    case Pass::backward_weight: return "backward_weight";
  }
  return "?";
}

std::string to_string(const Action& action) {
  return fmt::format("{} of stage {}, micro-batch {}{}", name(action.pass), action.stage, action.micro_batch,
                     action.ahead == 0 ? "" : fmt::format(", batch +{}", action.ahead));
}

int most_in_flight(const PipelineOrder& order, int stage) {
  int most = 0;
  const int first = order.worker_of_stage[static_cast<std::size_t>(stage)];
  for (int worker = first; worker < first + order.replicas_of(stage); ++worker) {
    int now = 0;
    for (const Action& action : order.actions[static_cast<std::size_t>(worker)]) {
      if (action.stage != stage) continue;
      now += is_forward(action.pass) ? 1 : finishes(action.pass) ? -1 : 0;
      most = std::max(most, now);
    }
  }
  return most;
}

std::vector<int> looped_placement(const PipelineShape& shape) {
  std::vector<int> worker_of_stage;
  for (int stage = 0; stage < shape.stages(); ++stage) worker_of_stage.push_back(stage % shape.workers);
  return worker_of_stage;
}

std::vector<int> v_placement(const PipelineShape& shape) {
  std::vector<int> worker_of_stage;
  for (int worker = 0; worker < shape.workers; ++worker) worker_of_stage.push_back(worker);
  for (int worker = shape.workers - 1; worker >= 0; --worker) worker_of_stage.push_back(worker);
  return worker_of_stage;
}

}  // namespace ddl
