#include "ddl/strategy/stages.h"

#include <algorithm>
#include <map>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/nn/split/split.h"
#include "ddl/strategy/partition/crossing.h"

namespace ddl {
namespace {

int stage_of(const std::vector<Stage>& stages, int layer) {
  const auto found = std::partition_point(stages.begin(), stages.end(), [&](const Stage& stage) { return stage.last <= layer; });
  invariant(found != stages.end() && layer >= found->first, "every layer is in a stage");
  return static_cast<int>(found - stages.begin());
}

}  // namespace

std::vector<int> first_parameters(const ModelGraph& graph) {
  std::vector<int> first;
  int next = 0;
  for (const auto& layer : graph.layers) {
    first.push_back(next);
    for (const auto& spec : layer.parameters) next += spec.trainable ? 1 : 0;
  }
  return first;
}

std::vector<int> parameters_used(const ModelGraph& graph, const std::vector<int>& first, int begin, int end) {
  std::vector<int> used;
  const auto add = [&](int layer, int only) {
    int number = first[at(layer)];
    const auto& specs = graph.layers[at(layer)].parameters;
    for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
      if (!specs[at(i)].trainable) continue;
      if (only == kNone || only == i) used.push_back(number);
      ++number;
    }
  };
  for (int layer = begin; layer < end; ++layer) {
    add(layer, kNone);
    for (const auto& [owner, parameter] : graph.layers[at(layer)].borrowed) add(owner, parameter);
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

std::vector<Stage> make_stages(const ModelGraph& graph, const std::vector<int>& cuts) {
  const int layers = static_cast<int>(graph.layers.size());
  const bool ascends = std::is_sorted(cuts.begin(), cuts.end()) && std::adjacent_find(cuts.begin(), cuts.end()) == cuts.end();
  if (cuts.empty() || cuts.front() != 0 || !ascends || cuts.back() >= layers)
    throw Error(Code::invalid_argument, fmt::format("[stages] first layers of {} stages ascend from 0; got the last {}, expected below {}, the layers of {}", cuts.size(),
                                                    cuts.empty() ? 0 : cuts.back(), layers, graph.name));
  const auto first = first_parameters(graph);
  std::vector<Stage> stages;
  for (std::size_t s = 0; s < cuts.size(); ++s) {
    const int end = s + 1 < cuts.size() ? cuts[s + 1] : layers;
    stages.push_back({cuts[s], end, parameters_used(graph, first, cuts[s], end)});
  }
  return stages;
}

std::map<int, std::vector<int>> shared_parameters(const std::vector<Stage>& stages) {
  std::map<int, std::vector<int>> users;
  for (int stage = 0; stage < static_cast<int>(stages.size()); ++stage)
    for (const int parameter : stages[at(stage)].parameters) users[parameter].push_back(stage);
  std::erase_if(users, [](const auto& each) { return each.second.size() < 2; });
  return users;
}

std::vector<Crossing> crossings(const ModelGraph& graph, const std::vector<Stage>& stages) {
  const auto learns = learning_layers(graph);
  std::map<std::pair<int, int>, std::vector<int>> read;
  const auto reads = [&](int to, int layer) {
    if (graph.layers[at(layer)].kind == LayerKind::input) return;
    if (const int from = stage_of(stages, layer); from != to) read[{from, to}].push_back(layer);
  };
  for (int to = 0; to < static_cast<int>(stages.size()); ++to)
    for (int layer = stages[at(to)].first; layer < stages[at(to)].last; ++layer)
      for (const int input : graph.layers[at(layer)].inputs) reads(to, input);
  // One without layers is the loss alone.
  if (const auto& last = stages.back(); last.first == last.last) reads(static_cast<int>(stages.size()) - 1, last.first - 1);
  if (graph.auxiliary >= 0) reads(static_cast<int>(stages.size()) - 1, graph.auxiliary);

  std::vector<Crossing> found;
  for (auto& [pair, layers] : read) {
    std::sort(layers.begin(), layers.end());
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
    Crossing crossing{pair.first, pair.second, layers};
    for (const int layer : layers) crossing.learns.push_back(learns[at(layer)]);
    found.push_back(std::move(crossing));
  }
  return found;
}

std::int64_t bytes_of(const ModelGraph& graph, const Crossing& crossing, std::int64_t samples, const std::vector<std::int64_t>& element_bytes) {
  std::int64_t bytes = 0;
  for (const int layer : crossing.layers) bytes += elements_of(graph.layers[at(layer)].shape) * (is_per_batch(graph.layers[at(layer)]) ? 1 : samples) * element_bytes[at(layer)];
  return bytes;
}

std::vector<int> inputs_of(const ModelGraph& graph, const Stage& stage) {
  std::vector<int> inputs;
  for (int layer = stage.first; layer < stage.last; ++layer)
    for (const int input : graph.layers[at(layer)].inputs)
      if (graph.layers[at(input)].kind == LayerKind::input && std::find(inputs.begin(), inputs.end(), input) == inputs.end()) inputs.push_back(input);
  return inputs;
}

bool needs_batch(const ModelGraph& graph, const std::vector<Stage>& stages, int stage) {
  return stage + 1 == static_cast<int>(stages.size()) || !inputs_of(graph, stages[at(stage)]).empty();
}

std::int64_t flops_of(const ModelGraph& graph, const Stage& stage) {
  std::int64_t sum = 0;
  for (int layer = stage.first; layer < stage.last; ++layer) sum += graph.layers[at(layer)].flops;
  return sum;
}

std::int64_t kept_elements_of(const ModelGraph& graph, const Stage& stage) {
  std::int64_t sum = 0;
  for (int layer = stage.first; layer < stage.last; ++layer) sum += graph.layers[at(layer)].kept_elements;
  return sum;
}

std::int64_t frozen_parameters_of(const ModelGraph& graph, const Stage& stage) {
  std::int64_t sum = 0;
  for (int layer = stage.first; layer < stage.last; ++layer)
    for (const auto& spec : graph.layers[at(layer)].parameters) sum += spec.trainable ? 0 : spec.elements();
  return sum;
}

}  // namespace ddl
