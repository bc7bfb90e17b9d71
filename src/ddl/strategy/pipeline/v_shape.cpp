#include "ddl/strategy/pipeline/v_shape.h"

#include <algorithm>

#include "ddl/core/error.h"
#include "ddl/strategy/pipeline/common.h"

namespace ddl {

void VActions::backward_input(int chunk) {
  const int micro_batch = backwards_.at(at(chunk))++;
  add(Pass::backward_input, chunk, micro_batch);
  owed_.push_back({chunk, micro_batch});
}

void VActions::backward_weight(int chunk) {
  const auto oldest = std::find_if(owed_.begin(), owed_.end(), [&](const Owed& owed) { return owed.chunk == chunk; });
  invariant(oldest != owed_.end(), "a gradient of weights follows that of the input");
  add(Pass::backward_weight, chunk, oldest->micro_batch);
  owed_.erase(oldest);
}

void VActions::oldest_backward_weight() {
  if (owed_.empty()) return;
  add(Pass::backward_weight, owed_.front().chunk, owed_.front().micro_batch);
  owed_.pop_front();
}

void VActions::add(Pass pass, int chunk, int micro_batch) {
  if (micro_batch < micro_batches_) actions_.push_back({pass, stages_.at(at(chunk)), micro_batch});
}

PipelineOrder v_order(std::string_view name, const PipelineShape& shape, std::vector<Action> (*write)(const PipelineShape& shape, int worker)) {
  require_shape(name, shape, 2, 2);
  PipelineOrder all{v_placement(shape), {}};
  for (int worker = 0; worker < shape.workers; ++worker) all.actions.push_back(write(shape, worker));
  return all;
}

}  // namespace ddl
