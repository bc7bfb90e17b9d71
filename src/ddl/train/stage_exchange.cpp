#include <algorithm>
#include <utility>

#include <c10/core/GradMode.h>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/nn/split/split.h"
#include "ddl/train/stage_runner.h"

// What the parts of a split network exchange between stages.
namespace ddl {
namespace {

/// Whether nobody but a layer needs the memory of what another makes, that one's own backward included.
bool is_free(const ModelGraph& graph, int made_by, int read_by) {
  const auto& maker = graph.layers[at(made_by)];
  if (maker.keeps.output || maker.keeps.view || maker.in_place || maker.kind == LayerKind::input || maker.kind == LayerKind::exchange || graph.auxiliary == made_by) return false;
  for (std::size_t i = 0; i < graph.layers.size(); ++i)
    if (static_cast<int>(i) != read_by && std::find(graph.layers[i].inputs.begin(), graph.layers[i].inputs.end(), made_by) != graph.layers[i].inputs.end()) return false;
  return true;
}

}  // namespace

void StageRunner::find_leads(const Plan& plan) {
  const auto& graph = network_.graph();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& stage = plan.stages[s];
    const auto& layer = graph.layers[at(stage.first)];
    if (!communicates(layer)) continue;
    auto& lead = leads_[s];
    lead.how = &*layer.exchange;
    lead.from.crossing = kNone;
    const int source = layer.inputs[0];
    for (std::size_t c = 0; c < crossings_.size(); ++c)
      for (std::size_t v = 0; v < crossings_[c].layers.size(); ++v)
        if (crossings_[c].to == static_cast<int>(s) && crossings_[c].layers[v] == source) lead.from = {static_cast<int>(c), v};
    invariant(lead.from.crossing != kNone, "what parts exchange was made in an earlier stage");
    lead.alone = source != graph.auxiliary || s + 1 < plan.stages.size();
    for (int other = stage.first + 1; other < stage.last; ++other) {
      const auto& inputs = graph.layers[at(other)].inputs;
      lead.alone &= std::find(inputs.begin(), inputs.end(), source) == inputs.end();
    }
    lead.overwrites = is_free(graph, source, stage.first);
  }
}

int StageRunner::layer_of(int stage, const Place& place) const {
  return place.crossing == kNone ? stages_[at(stage)].first : crossings_[at(place.crossing)].layers[place.value];
}

bool StageRunner::learns(int stage, const Place& place) const {
  const auto& which = place.crossing == kNone ? leads_[at(stage)].from : place;
  return crossings_[at(which.crossing)].learns[which.value];
}

PartMove StageRunner::move_of(int stage, bool forward, at::Tensor from) const {
  const auto& lead = leads_[at(stage)];
  // The gradient of what an exchange made is nobody else's.
  return {*lead.how, forward, std::move(from), !forward || lead.overwrites};
}

std::optional<PartMove> StageRunner::begin_exchange(const Task& task) {
  const c10::NoGradGuard guard;
  if (task.cargo == Cargo::activation_gradients) {
    const auto found = exchange_gradients_.find({task.stage, task.micro_batch});
    if (found == exchange_gradients_.end()) return std::nullopt;
    auto gradient = std::move(found->second);
    exchange_gradients_.erase(found);
    return move_of(task.stage, false, std::move(gradient));
  }
  const auto& from = leads_[at(task.stage)].from;
  const auto found = activations_.find({from.crossing, task.micro_batch});
  if (found == activations_.end()) return std::nullopt;
  return move_of(task.stage, true, found->second[from.value]);
}

void StageRunner::end_exchange(const Task& task, PartMove& move) {
  const c10::NoGradGuard guard;
  if (task.cargo == Cargo::activations)
    exchanged_[{task.stage, task.micro_batch}] = move.result();
  else
    take_back(task.stage, task.micro_batch, move.result());
}

/// The gradient of what was exchanged, besides what the stage's other layers found of it.
void StageRunner::take_back(int stage, int micro_batch, const at::Tensor& gradient) {
  const auto& place = leads_[at(stage)].from;
  auto& of_crossing = gradients_[{place.crossing, micro_batch}];
  of_crossing.resize(crossings_[at(place.crossing)].layers.size());
  auto& sum = of_crossing[place.value];
  // Where they are replayed they need no adding up.
  if (!sum.defined() || replay_ == nullptr) sum = sum.defined() ? sum + gradient : gradient;
}

}  // namespace ddl
