#include <utility>

#include "ddl/nn/graph_builder.h"

namespace ddl {

int GraphBuilder::batch_norm2d(const std::string& name, int from, const BatchNorm& how) {
  Layer layer{name, LayerKind::batch_norm2d, {from}, shape(from)};
  require_rank(layer, 3);
  const auto channels = layer.shape[0];
  layer.attributes.epsilon = how.epsilon;
  layer.parameters.push_back({name + ".weight", {channels}, {Initialiser::Kind::constant, how.weight}});
  layer.parameters.push_back({name + ".bias", {channels}});
  layer.statistics.push_back({name + ".running_mean", {channels}});
  layer.statistics.push_back({name + ".running_var", {channels}, Initialiser::ones()});
  // Two passes for the statistics, one multiply-add for the result.
  layer.flops = 5 * elements_of(layer.shape);
  return append(std::move(layer), {.inputs = true});
}

int GraphBuilder::layer_norm(const std::string& name, int from) {
  Layer layer{name, LayerKind::layer_norm, {from}, shape(from)};
  const auto features = layer.shape.back();
  layer.parameters.push_back({name + ".weight", {features}, Initialiser::ones()});
  layer.parameters.push_back({name + ".bias", {features}});
  layer.flops = 5 * elements_of(layer.shape);
  // Mean and deviation of each place.
  return append(std::move(layer), {.inputs = true, .extra = 2 * elements_of(shape(from)) / features});
}

}  // namespace ddl
