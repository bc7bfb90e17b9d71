#include "ddl/strategy/pipeline/v_shape.h"

#include "ddl/core/error.h"
#include "ddl/strategy/pipeline/common.h"

namespace ddl {

void VActions::backward_input(int chunk) {
  const int micro_batch = backwards_.at(at(chunk))++;
  add(Pass::backward_input, chunk, micro_batch);
  owed_.at(at(chunk)).push_back({inputs_++, micro_batch});
}

void VActions::backward_weight(int chunk) {
  auto& owed = owed_.at(at(chunk));
  auto& done = weights_.at(at(chunk));
  invariant(done < owed.size(), "a gradient of weights follows that of the input");
  add(Pass::backward_weight, chunk, owed[done++].micro_batch);
}

void VActions::oldest_backward_weight() {
  if (!owes()) return;
  const auto number = [&](int chunk) { return owes(chunk) ? owed_[at(chunk)][weights_[at(chunk)]].number : inputs_; };
  backward_weight(number(0) < number(1) ? 0 : 1);
}

PipelineOrder v_order(std::string_view name, const PipelineShape& shape, std::vector<Action> (*write)(const PipelineShape& shape, int worker)) {
  require_shape(name, shape, 2, 2);
  PipelineOrder all{v_placement(shape), {}};
  for (int worker = 0; worker < shape.workers; ++worker) all.actions.push_back(write(shape, worker));
  return all;
}

}  // namespace ddl
