#include "ddl/nn/recompute_cuts.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace ddl {
namespace {

bool may_cut(const ModelGraph& graph, const std::vector<std::size_t>& last_use, std::size_t cut) {
  constexpr std::ptrdiff_t kMost = 2;
  const auto& layers = graph.layers;
  // Values of layers before the cut that layers from there on read.
  std::vector<std::size_t> alive;
  for (std::size_t layer = 0; layer < cut; ++layer)
    if (last_use[layer] >= cut) alive.push_back(layer);
  // What is given, and what is given out, is held anyway.
  const auto held = [&](std::size_t layer) { return layers[layer].kind == LayerKind::input || last_use[layer] == layers.size(); };
  if (std::count_if(alive.begin(), alive.end(), std::not_fn(held)) > kMost) return false;
  for (std::size_t layer = cut; layer < layers.size(); ++layer)
    if (layers[layer].in_place && std::find(alive.begin(), alive.end(), static_cast<std::size_t>(layers[layer].inputs[0])) != alive.end()) return false;
  return true;
}

}  // namespace

std::vector<std::size_t> last_uses(const ModelGraph& graph) {
  std::vector<std::size_t> last(graph.layers.size());
  for (std::size_t i = 0; i < graph.layers.size(); ++i)
    for (const int input : graph.layers[i].inputs) last[static_cast<std::size_t>(input)] = i;
  for (const int output : {static_cast<int>(graph.layers.size()) - 1, graph.auxiliary})
    if (output >= 0) last[static_cast<std::size_t>(output)] = graph.layers.size();
  return last;
}

std::vector<std::size_t> recompute_cuts(const ModelGraph& graph) {
  const auto target = static_cast<double>(graph.kept_elements()) / std::sqrt(static_cast<double>(graph.layers.size()));
  const auto last_use = last_uses(graph);
  std::vector<std::size_t> cuts{0};
  double kept = 0;
  for (std::size_t layer = 0; layer + 1 < graph.layers.size(); ++layer) {
    kept += static_cast<double>(graph.layers[layer].kept_elements);
    if (kept < target || !may_cut(graph, last_use, layer + 1)) continue;
    cuts.push_back(layer + 1);
    kept = 0;
  }
  cuts.push_back(graph.layers.size());
  return cuts;
}

}  // namespace ddl
