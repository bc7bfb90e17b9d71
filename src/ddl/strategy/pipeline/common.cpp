#include "ddl/strategy/pipeline/common.h"

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

}  // namespace ddl
