#include <utility>

#include "ddl/nn/graph_builder.h"

#include <fmt/format.h>

namespace ddl {

int GraphBuilder::linear(const std::string& name, int from, std::int64_t features, const Linear& how) {
  Layer layer{name, LayerKind::linear, {from}, shape(from)};
  const auto in = layer.shape.back();
  if (layer.shape.size() > 2) fail(name, fmt::format("takes samples of one or two dimensions; got {}", to_string(layer.shape)));
  layer.shape.back() = features;
  if (how.tied < 0) {
    layer.parameters.push_back({name + ".weight", {features, in}, how.weight(in, features)});
  } else {
    const auto& owner = graph_.layers[static_cast<std::size_t>(how.tied)];
    if (owner.parameters.empty() || owner.parameters[0].shape != std::vector<std::int64_t>{features, in})
      fail(name, fmt::format("borrows a weight of {}x{}; layer '{}' has none such", features, in, owner.name));
    layer.borrowed.push_back({how.tied, 0});
  }
  if (how.bias) layer.parameters.push_back({name + ".bias", {features}, how.zero_bias ? Initialiser::zeros() : Initialiser::uniform_fan_in(in)});
  layer.multiply_adds = in * elements_of(layer.shape);
  layer.flops = 2 * layer.multiply_adds + (how.bias ? elements_of(layer.shape) : 0);
  return append(std::move(layer), {.inputs = true});
}

}  // namespace ddl
