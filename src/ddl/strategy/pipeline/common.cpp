#include "ddl/strategy/pipeline/common.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/ranges.h>

#include "ddl/core/error.h"

namespace ddl {

void require_shape(std::string_view name, const PipelineShape& shape, int least_chunks, int most_chunks) {
  const auto refuse = [&](std::string_view what, int got, const std::string& expected) {
    throw Error(Code::invalid_argument, fmt::format("[pipeline] {} of {}; got {}, expected {}", what, name, got, expected));
  };
  if (shape.workers < 1) refuse("workers", shape.workers, "1 or more");
  if (shape.micro_batches < 1) refuse("micro-batches", shape.micro_batches, "1 or more");
  if (shape.chunks < least_chunks || (most_chunks != 0 && shape.chunks > most_chunks))
    refuse("stages per worker (chunks)", shape.chunks,
           fmt::format("{}{}", least_chunks,
                       most_chunks == 0   ? " or more, or schedule 1f1b, which has 1"
                       : most_chunks == 1 ? ", or schedule interleaved-1f1b or looped-bfs, which have as many as they are told"
                                          : ""));
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

PipelineOrder in_endless_rounds(const std::vector<int>& replicas, int micro_batches, const std::function<int(int)>& warm_up) {
  int multiple = 1;
  for (const int workers : replicas) multiple = std::lcm(multiple, std::max(1, workers));
  if (micro_batches < 1 || micro_batches % multiple != 0)
    throw Error(Code::invalid_argument, fmt::format("[pipeline] replicas of an asynchronous stage have as many micro-batches each, in every step; got {} for stages of {} workers, expected "
                                                    "a multiple of {}", micro_batches, fmt::join(replicas, "/"), multiple));
  PipelineOrder all;
  all.replicas = replicas;
  for (int stage = 0; stage < static_cast<int>(replicas.size()); ++stage) {
    all.worker_of_stage.push_back(static_cast<int>(all.actions.size()));
    const int workers = all.replicas_of(stage), own = micro_batches / workers, ahead = warm_up(stage);
    for (int replica = 0; replica < workers; ++replica) {
      auto& actions = all.actions.emplace_back();
      for (int i = 0; i < own; ++i) {
        const int forward = i + ahead;
        actions.push_back({Pass::forward, stage, replica + forward % own * workers, forward / own});
        actions.push_back({Pass::backward, stage, replica + i * workers});
      }
    }
  }
  return all;
}

int in_flight_1f1b(const std::vector<int>& replicas, int stage) {
  const auto own = replicas.begin() + stage;
  const int later = std::accumulate(own + 1, replicas.end(), 0), turns = later - static_cast<int>(replicas.end() - own - 1);
  return (*own + later + turns + *own - 1) / *own;
}

}  // namespace ddl
