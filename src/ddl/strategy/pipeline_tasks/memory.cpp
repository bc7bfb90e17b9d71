#include "ddl/strategy/pipeline_tasks/memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "ddl/core/at.h"
#include "ddl/strategy/common.h"
#include "ddl/strategy/pass_memory.h"
#include "ddl/strategy/stages.h"

namespace ddl {
namespace {

/// The most bytes of a place's actions, of activations and gradients together: after a forward, in a backward, or when it is over. Of an asynchronous
/// order what steps before left in flight is there when a step begins.
std::int64_t most_in_passes(const Pipeline& pipeline, int place, const std::map<int, PassMemory>& stages) {
  const auto& actions = pipeline.order.actions[at(place)];
  const auto kept = [&](const Action& action, const PassMemory& memory) { return memory.given + (pipeline.recomputes(action.micro_batch) ? 0 : memory.made); };
  std::int64_t now = 0, gradients = 0, most = 0;
  for (const auto& action : actions)
    if (is_forward(action.pass)) now += action.ahead * kept(action, stages.at(action.stage));
  const auto look = [&](std::int64_t bytes) { most = std::max(most, bytes); };
  const bool made_apart = pipeline.asynchronous() && pipeline.staleness[at(place)] > 0;
  std::set<int> went_back;
  for (const auto& action : actions) {
    const auto& memory = stages.at(action.stage);
    if (is_forward(action.pass)) {
      now += kept(action, memory);
      look(now + gradients);
      continue;
    }
    // Between its two parts a backward holds what products were fed and the gradients of what they made: about as much as was kept before it.
    const bool first = action.pass == Pass::backward_input, second = action.pass == Pass::backward_weight;
    const bool made_again = pipeline.recomputes(action.micro_batch) && !second;
    if (first && made_again) now += memory.made;
    const bool went_before = went_back.contains(action.stage);
    // Gradients of older weights are all made anew, and then added to the sum.
    const bool is_later = went_before && !made_apart;
    const auto own = memory.given + memory.made;
    const auto others = now - (made_again && !first ? memory.given : own);
    // Of a backward in two parts neither has the whole of both.
    look(others + gradients + (first ? memory.later_peak : second ? own + (is_later ? memory.later_making : memory.first_making) : is_later ? memory.later_peak : memory.first_peak));
    if (!finishes(action.pass)) continue;
    now = others;
    if (!went_before) gradients += memory.gradients;
    went_back.insert(action.stage);
    look(now + gradients);
  }
  return most;
}

}  // namespace

Holdings holdings_at(const PipelineLayout& layout, int place, const Role& role) {
  const auto& input = layout.input;
  const auto& pipeline = layout.pipeline;
  std::int64_t trains = 0, frozen = 0, updates = 0;
  for (const int parameter : layout.parameters_at(place)) trains += layout.parameter_bytes[at(parameter)];
  for (const int segment : layout.segments_at(place)) frozen += frozen_parameters_of(input.graph, layout.segments[at(segment)]) * input.element_bytes;
  std::set<int> in_bucket;
  for (const auto& bucket : role.buckets) {
    // Those of older weights are added up where autograd made them, and go to their bucket when all are there.
    if (!pipeline.asynchronous()) in_bucket.insert(bucket.parameters.begin(), bucket.parameters.end());
    updates += longest_part(input, bucket.bytes, pipeline.shards);
  }
  auto holds = role.holds;
  holds.parameters = trains * (pipeline.asynchronous() ? 1 + pipeline.staleness[at(place)] : 1) + frozen;
  // With shards everything is in a bucket.
  holds.optimizer = (pipeline.shards > 1 ? updates : trains) * input.optimizer_tensors;
  std::map<int, PassMemory> stages;
  for (const int stage : layout.stages_at(place)) {
    std::vector<Stage> segments;
    for (const int number : layout.segments_of_stage[at(stage)]) segments.push_back(layout.segments[at(number)]);
    stages[stage] = layout.memory.passes(segments, layout.samples, in_bucket);
    holds.gradients += stages[stage].gradients;
  }
  holds.activations = most_in_passes(pipeline, place, stages) - holds.gradients;
  return holds;
}

}  // namespace ddl
