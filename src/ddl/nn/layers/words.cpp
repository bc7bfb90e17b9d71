#include <utility>

#include "ddl/nn/graph_builder.h"

#include <fmt/format.h>

namespace ddl {

int GraphBuilder::embedding(const std::string& name, int words, std::int64_t vocabulary, std::int64_t features, const Embedding& how) {
  Layer layer{name, LayerKind::embedding, {words}};
  require_rank(layer, 1);
  const auto length = shape(words)[0];
  layer.shape = {length, features};
  layer.attributes.factor = how.factor;
  if (how.tied < 0)
    layer.parameters.push_back({name + ".weight", {vocabulary, features}, how.weight(vocabulary, features)});
  else
    layer.borrowed.push_back(borrow(name, how.tied, {vocabulary, features}));
  if (how.factor != 1) layer.flops = elements_of(layer.shape);
  return append(std::move(layer), {.inputs = true, .extra = length});  // words are int64: twice the elements of fp32
}

int GraphBuilder::sinusoids(const std::string& name, int from) {
  Layer layer{name, LayerKind::positions, {from}, shape(from)};
  require_rank(layer, 2);
  layer.constants.push_back({name + ".table", layer.shape, {Initialiser::Kind::sinusoids, 0}, false});
  layer.flops = elements_of(layer.shape);
  return append(std::move(layer), {});
}

int GraphBuilder::learnt_positions(const std::string& name, int from, std::int64_t places, const WeightInitialiser& weight) {
  Layer layer{name, LayerKind::positions, {from}, shape(from)};
  require_rank(layer, 2);
  if (places < layer.shape[0]) fail(name, fmt::format("knows {} places; got samples of {} words", places, layer.shape[0]));
  layer.parameters.push_back({name + ".weight", {places, layer.shape[1]}, weight(places, layer.shape[1])});
  layer.flops = elements_of(layer.shape);
  return append(std::move(layer), {});
}

}  // namespace ddl
