#include <utility>

#include "ddl/nn/graph_builder.h"

#include <fmt/format.h>

namespace ddl {

int GraphBuilder::linear(const std::string& name, int from, std::int64_t features, const Linear& how) {
  Layer layer{name, LayerKind::linear, {from}, shape(from)};
  const auto in = layer.shape.back();
  if (layer.shape.size() > 2) fail(name, fmt::format("takes samples of one or two dimensions; got {}", to_string(layer.shape)));
  layer.shape.back() = features;
  if (how.tied < 0)
    layer.parameters.push_back({name + ".weight", {features, in}, how.weight(in, features)});
  else
    layer.borrowed.push_back(borrow(name, how.tied, {features, in}));
  if (how.bias) layer.parameters.push_back({name + ".bias", {features}, how.zero_bias ? Initialiser::zeros() : Initialiser::uniform_fan_in(in)});
  layer.attributes.milliseconds = how.milliseconds;
  layer.multiply_adds = in * elements_of(layer.shape);
  layer.flops = 2 * layer.multiply_adds + (how.bias ? elements_of(layer.shape) : 0);
  return append(std::move(layer), {.inputs = true});
}

}  // namespace ddl
