#include "ddl/strategy/partition/layer_costs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/error.h"

namespace ddl {
namespace {

void require_times(const std::vector<double>& times, const ModelGraph& graph, const char* what) {
  if (times.size() != graph.layers.size())
    throw Error(Code::invalid_argument, fmt::format("[partition] measured {} times of {}; got {}, expected {}, one of each layer", what,
                                                    graph.name, times.size(), graph.layers.size()));
  for (std::size_t layer = 0; layer < times.size(); ++layer)
    if (!std::isfinite(times[layer]) || times[layer] < 0)
      throw Error(Code::invalid_argument, fmt::format("[partition] measured {} time of layer '{}'; got {}, expected 0 or more seconds", what,
                                                      graph.layers[layer].name, times[layer]));
}

void require(const CostOptions& options, const ModelGraph& graph) {
  const auto fail = [](const char* what, double got, const char* expected) {
    throw Error(Code::invalid_argument, fmt::format("[partition] {}; got {}, expected {}", what, got, expected));
  };
  if (options.samples < 1) fail("samples of a micro-batch", static_cast<double>(options.samples), "1 or more");
  if (options.element_bytes < 1) fail("bytes of an element", static_cast<double>(options.element_bytes), "1 or more");
  if (!options.value_bytes.empty() && options.value_bytes.size() != graph.layers.size())
    fail("widths of values", static_cast<double>(options.value_bytes.size()), "one of each layer, or none");
  if (!(options.gradients >= 0)) fail("tensors of gradients", options.gradients, "0 or more");
  if (!(options.optimizer_tensors >= 0)) fail("tensors of the optimizer", options.optimizer_tensors, "0 or more");
  if (!(options.flops_per_second > 0)) fail("FLOPs per second", options.flops_per_second, "more than 0");
  // The one without the other would compare seconds with FLOPs.
  if (options.forward.empty() && options.backward.empty()) return;
  require_times(options.forward, graph, "forward");
  require_times(options.backward, graph, "backward");
}

std::vector<ParameterUse> tied_uses(const ModelGraph& graph, std::int64_t element_bytes) {
  std::vector<ParameterUse> uses;
  std::map<std::pair<int, int>, int> before;
  for (int layer = 0; layer < static_cast<int>(graph.layers.size()); ++layer)
    for (const auto& from : graph.layers[at(layer)].borrowed) {
      const auto& spec = graph.layers[at(from.layer)].parameters[at(from.parameter)];
      const auto [last, first] = before.try_emplace({from.layer, from.parameter}, from.layer);
      uses.push_back({from, layer, last->second, spec.elements() * element_bytes, spec.trainable});
      last->second = layer;
    }
  return uses;
}

}  // namespace

LayerCosts layer_costs(const ModelGraph& graph, const CostOptions& options) {
  require(options, graph);
  const auto value_bytes = options.value_bytes.empty() ? std::vector<std::int64_t>(graph.layers.size(), options.element_bytes) : options.value_bytes;
  LayerCosts costs{graph.name, options.samples, 1 + options.gradients + options.optimizer_tensors, {}, find_cuts(graph, value_bytes),
                   tied_uses(graph, options.element_bytes)};
  const auto learns = learning_layers(graph);
  const auto rate = static_cast<double>(options.samples) / options.flops_per_second;
  for (std::size_t number = 0; number < graph.layers.size(); ++number) {
    const auto& layer = graph.layers[number];
    const auto forward = static_cast<double>(layer.flops);
    // One product for the gradient of the input, one for that of the weights.
    const auto backward = learns[number] ? 2 * forward : 0;
    PartitionLayer cost{forward * rate, backward * rate, forward + backward};
    if (!options.forward.empty()) {
      cost.forward = options.forward[number];
      cost.backward = options.backward[number];
    }
    for (const auto& spec : layer.parameters) (spec.trainable ? cost.parameter_bytes : cost.frozen_bytes) += spec.elements() * options.element_bytes;
    cost.activation_bytes = layer.kept_elements * value_bytes[number];
    cost.input = layer.kind == LayerKind::input;
    costs.layers.push_back(cost);
  }
  return costs;
}

}  // namespace ddl
