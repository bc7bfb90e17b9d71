#include "ddl/strategy/pipeline_tasks/memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "ddl/strategy/common.h"
#include "ddl/strategy/stages.h"

namespace ddl {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// What a stage of an order has to do with memory, of one micro-batch where it depends on that. Bytes.
struct StageBytes {
  std::int64_t given = 0;              ///< came from other stages
  std::int64_t made = 0;               ///< kept for backward; of the last stage, with what the loss keeps
  std::int64_t late = 0;               ///< made besides when backward begins: by the loss's
  std::int64_t gradients = 0;          ///< of its parameters that are in no bucket: there from its first backward on
  std::int64_t making = 0;             ///< of a gradient while it is added to what is there, or goes to a bucket: bytes_in_the_making()
};

StageBytes bytes_of_stage(const PipelineLayout& layout, int stage, const std::set<int>& in_bucket) {
  StageBytes bytes;
  if (stage + 1 == layout.pipeline.order.stages()) {
    bytes.made = logits_bytes(layout.input, layout.samples);
    bytes.late = 2 * bytes.made;
  }
  for (const int number : layout.segments_of_stage[at(stage)]) {
    const auto& segment = layout.segments[at(number)];
    bytes.made += kept_elements_of(layout.input.graph, segment) * layout.samples * layout.input.element_bytes;
    // What comes from a segment of the same stage is counted where it was made.
    for (const int crossing : layout.into[at(number)])
      if (layout.stage_of_segment[at(layout.crossings[at(crossing)].from)] != stage) bytes.given += layout.crossings[at(crossing)].bytes;
    for (const int parameter : segment.parameters) {
      bytes.making = std::max(bytes.making, layout.bytes_in_the_making[at(parameter)]);
      if (in_bucket.count(parameter) == 0) bytes.gradients += layout.parameter_bytes[at(parameter)];
    }
  }
  return bytes;
}

/// The worst moment so far.
class Worst {
 public:
  explicit Worst(Holdings& holds) : holds_(holds) {}
  void look(std::int64_t activations, std::int64_t gradients) {
    if (activations + gradients <= most_) return;
    most_ = activations + gradients;
    holds_.activations = activations;
    holds_.gradients = gradients;
  }

 private:
  Holdings& holds_;
  std::int64_t most_ = -1;
};

/// Fills in activations and gradients as they are at the worst moment of a place's actions: after a forward, when a backward has begun, or when it is over.
/// Of an asynchronous order what steps before left in flight is there when a step begins. Holdings::buckets says whether gradients go there.
void hold_worst(const Pipeline& pipeline, int place, const std::map<int, StageBytes>& stages, Holdings& holds) {
  const auto& actions = pipeline.order.actions[at(place)];
  const auto kept = [&](const Action& action, const StageBytes& bytes) { return bytes.given + (pipeline.recomputes(action.micro_batch) ? 0 : bytes.made); };
  std::int64_t now = 0, gradients = 0;
  for (const auto& action : actions)
    if (is_forward(action.pass)) now += action.ahead * kept(action, stages.at(action.stage));
  const bool in_buckets = holds.buckets > 0;
  Worst worst(holds);
  std::set<int> went_back;
  for (const auto& action : actions) {
    const auto& bytes = stages.at(action.stage);
    if (is_forward(action.pass)) {
      now += kept(action, bytes);
      worst.look(now, gradients);
      continue;
    }
    // Between its two parts a backward holds what products were fed and the gradients of what they made: about as much as was kept before it.
    const bool first = action.pass == Pass::backward_input, second = action.pass == Pass::backward_weight;
    const bool made_again = pipeline.recomputes(action.micro_batch) && !second;
    if (first && made_again) now += bytes.made;
    const bool adds = finishes(action.pass) && (in_buckets || went_back.count(action.stage) > 0);
    worst.look(now + (made_again && !first ? bytes.made : 0) + (second ? 0 : bytes.late), gradients + (adds ? bytes.making : 0));
    if (!finishes(action.pass)) continue;
    now -= bytes.given + (made_again ? 0 : bytes.made);
    if (went_back.insert(action.stage).second) gradients += bytes.gradients;
    worst.look(now, gradients);
  }
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
    in_bucket.insert(bucket.parameters.begin(), bucket.parameters.end());
    updates += longest_part(input, bucket.bytes, pipeline.shards);
  }
  auto holds = role.holds;
  holds.parameters = trains * (pipeline.asynchronous() ? 1 + pipeline.staleness[at(place)] : 1) + frozen;
  // With shards everything is in a bucket.
  holds.optimizer = (pipeline.shards > 1 ? updates : trains) * input.optimizer_tensors;
  std::map<int, StageBytes> stages;
  for (const int stage : layout.stages_at(place)) stages[stage] = bytes_of_stage(layout, stage, in_bucket);
  hold_worst(pipeline, place, stages, holds);
  return holds;
}

}  // namespace ddl
