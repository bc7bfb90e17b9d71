#include "ddl/strategy/partition/crossing.h"

#include <algorithm>
#include <utility>

#include "ddl/core/at.h"

namespace ddl {
namespace {

/// The layer after which nobody reads a value; the number of layers for what the network gives out.
std::vector<int> last_reads(const ModelGraph& graph) {
  const auto count = static_cast<int>(graph.layers.size());
  std::vector<int> last(graph.layers.size(), -1);
  for (int layer = 0; layer < count; ++layer)
    for (const int input : graph.layers[at(layer)].inputs) last[at(input)] = layer;
  for (const int output : {count - 1, graph.auxiliary})
    if (output >= 0) last[at(output)] = count;
  return last;
}

/// Who writes over a value: `layer`, seen from cuts up to `reach`. After that the cut falls behind a view, which crosses instead.
struct Overwriter {
  int layer = -1, reach = -1;
};

std::vector<Overwriter> overwriters(const ModelGraph& graph) {
  std::vector<Overwriter> over(graph.layers.size());
  for (int number = static_cast<int>(graph.layers.size()) - 1; number >= 0; --number) {
    const auto& layer = graph.layers[at(number)];
    const bool view = layer.kind == LayerKind::flatten || layer.kind == LayerKind::wait;
    if (layer.in_place) over[at(layer.inputs[0])] = {number, number};
    if (view && over[at(number)].layer >= 0) over[at(layer.inputs[0])] = {over[at(number)].layer, number};
  }
  return over;
}

}  // namespace

std::vector<bool> learning_layers(const ModelGraph& graph) {
  std::vector<bool> learns;
  for (const auto& layer : graph.layers) {
    const auto trains = [](const ParameterSpec& spec) { return spec.trainable; };
    const auto borrowed = [&](const Borrowed& from) { return trains(graph.layers[at(from.layer)].parameters[at(from.parameter)]); };
    learns.push_back(std::any_of(layer.parameters.begin(), layer.parameters.end(), trains) ||
                     std::any_of(layer.borrowed.begin(), layer.borrowed.end(), borrowed) ||
                     std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int input) { return learns[at(input)]; }));
  }
  return learns;
}

std::vector<Cut> find_cuts(const ModelGraph& graph, const std::vector<std::int64_t>& element_bytes) {
  const auto last = last_reads(graph);
  const auto over = overwriters(graph);
  const auto learns = learning_layers(graph);
  std::vector<Cut> cuts(graph.layers.size());
  std::vector<int> alive;
  for (int cut = 1; cut < static_cast<int>(cuts.size()); ++cut) {
    if (graph.layers[at(cut - 1)].kind != LayerKind::input) alive.push_back(cut - 1);
    std::erase_if(alive, [&](int layer) { return last[at(layer)] < cut; });
    auto& here = cuts[at(cut)];
    for (const int layer : alive) {
      const auto& shape = graph.layers[at(layer)].shape;
      const auto& writer = over[at(layer)];
      const auto bytes = elements_of(shape) * element_bytes[at(layer)];
      here.values.push_back({layer, shape, bytes, learns[at(layer)], cut <= writer.reach ? writer.layer : -1});
      here.bytes += bytes;
      if (learns[at(layer)]) here.gradient_bytes += bytes;
    }
  }
  return cuts;
}

}  // namespace ddl
