#include "ddl/strategy/pipeline/common.h"

#include <algorithm>
#include <utility>

#include "ddl/core/error.h"

namespace ddl {

void require_shape(std::string_view name, const PipelineShape& shape, int least_chunks, int most_chunks) {
  const auto refuse = [&](std::string_view what, int got, const std::string& expected) {
    throw Error(Code::invalid_argument, fmt::format("[pipeline] {} of {}; got {}, expected {}", what, name, got, expected));
  };
  if (shape.workers < 1) refuse("workers", shape.workers, "1 or more");
  if (shape.micro_batches < 1) refuse("micro-batches", shape.micro_batches, "1 or more");
  if (shape.chunks < least_chunks || (most_chunks != 0 && shape.chunks > most_chunks))
    refuse("stages per worker", shape.chunks,
           most_chunks == 0 ? fmt::format("{} or more", least_chunks)
                            : least_chunks == most_chunks ? fmt::format("{}", least_chunks) : fmt::format("{} to {}", least_chunks, most_chunks));
}

std::vector<Action> in_turn(int stage, int micro_batches, int warm_up) {
  std::vector<Action> actions;
  for (int i = 0; i < micro_batches + warm_up; ++i) {
    if (i < micro_batches) actions.push_back({Pass::forward, stage, i});
    if (i >= warm_up) actions.push_back({Pass::backward, stage, i - warm_up});
  }
  return actions;
}

PipelineOrder in_rounds(const std::vector<int>& replicas, int micro_batches, const std::function<int(int stage)>& warm_up) {
  PipelineOrder all;
  all.replicas = replicas;
  for (int stage = 0; stage < static_cast<int>(replicas.size()); ++stage) {
    const int workers = all.replicas_of(stage);
    if (workers < 1 || workers > micro_batches)
      throw Error(Code::invalid_argument, fmt::format("[pipeline] each replica of a stage has a micro-batch or more; got {} replicas of stage {} for {} micro-batches, expected 1 to {} "
                                                      "replicas, or {} micro-batches", workers, stage, micro_batches, micro_batches, workers));
    all.worker_of_stage.push_back(static_cast<int>(all.actions.size()));
    for (int replica = 0; replica < workers; ++replica) {
      const int own = (micro_batches - replica + workers - 1) / workers;
      auto actions = in_turn(stage, own, std::min(own, warm_up(stage)));
      for (Action& action : actions) action.micro_batch = replica + action.micro_batch * workers;
      all.actions.push_back(std::move(actions));
    }
  }
  return all;
}

}  // namespace ddl
