#include "ddl/strategy/sharded_units.h"

#include <algorithm>
#include <numeric>

#include "ddl/core/at.h"
#include "ddl/strategy/stages.h"

namespace ddl {
namespace {

/// By layer: how many values, but inputs, cross from before it to it or later.
std::vector<int> crossing_values(const ModelGraph& graph) {
  const int layers = static_cast<int>(graph.layers.size());
  std::vector<int> last(at(layers), -1);
  for (int layer = 0; layer < layers; ++layer)
    for (const int input : graph.layers[at(layer)].inputs) last[at(input)] = layer;
  if (graph.auxiliary >= 0) last[at(graph.auxiliary)] = layers;
  std::vector<int> values(at(layers) + 1);
  for (int layer = 0; layer < layers; ++layer) {
    if (graph.layers[at(layer)].kind == LayerKind::input) continue;
    ++values[at(layer) + 1];
    if (last[at(layer)] >= 0 && last[at(layer)] < layers) --values[at(last[at(layer)]) + 1];
  }
  for (int layer = 1; layer <= layers; ++layer) values[at(layer)] += values[at(layer) - 1];
  values.pop_back();
  return values;
}

}  // namespace

std::vector<int> network_blocks(const ModelGraph& graph) {
  const auto values = crossing_values(graph);
  const int layers = static_cast<int>(values.size());
  // Runs of places where as many values cross: a run is taken where both runs beside it are higher.
  std::vector<int> blocks{0};
  for (int first = 0; first < layers;) {
    int end = first;
    while (end < layers && values[at(end)] == values[at(first)]) ++end;
    const bool low_before = first == 0 || values[at(first) - 1] > values[at(first)] || values[at(first) - 1] == 0;
    const bool low_after = end == layers || values[at(end)] > values[at(first)];
    if (values[at(first)] > 0 && low_before && low_after)
      for (int layer = first; layer < end; ++layer) blocks.push_back(layer);
    first = end;
  }
  return blocks;
}

std::vector<int> cut_units(const ModelGraph& graph, const std::vector<std::int64_t>& bytes, const UnitSize& size) {
  const auto bytes_of = [&](const Stage& block) {
    return std::accumulate(block.parameters.begin(), block.parameters.end(), std::int64_t{0}, [&](std::int64_t sum, int parameter) { return sum + bytes[at(parameter)]; });
  };
  std::vector<int> first;
  for (const auto& block : make_stages(graph, network_blocks(graph)))
    for (int layer = block.first; layer < block.last; ++layer)
      if (layer == block.first || (size.bytes > 0 && bytes_of(block) > size.bytes)) first.push_back(layer);
  const auto blocks = make_stages(graph, first);
  std::vector<int> cuts{0};
  std::int64_t held = 0;
  int count = 0;
  for (const auto& block : blocks) {
    const auto more = bytes_of(block);
    const bool full = size.bytes > 0 ? held + more > size.bytes : count >= size.blocks;
    if (more > 0 && held > 0 && full) {
      cuts.push_back(block.first);
      held = 0;
      count = 0;
    }
    held += more;
    count += more > 0 ? 1 : 0;
  }
  return cuts;
}

std::int64_t usual_unit_bytes(std::int64_t all) { return std::max(std::int64_t{1} << 20, all / 16); }

}  // namespace ddl
