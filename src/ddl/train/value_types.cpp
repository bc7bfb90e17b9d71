#include "ddl/train/value_types.h"

#include <map>
#include <tuple>

#include <c10/core/GradMode.h>

#include "ddl/nn/network.h"
#include "ddl/nn/split/split.h"
#include "ddl/train/autocast.h"

namespace ddl {
namespace {

constexpr std::int64_t kSamples = 2;

bool is_words(const Layer& layer) { return layer.kind == LayerKind::input && layer.attributes.part != InputPart::images; }

at::Tensor zeros(const Layer& layer, at::ScalarType type, const at::TensorOptions& like) {
  auto shape = layer.shape;
  shape.insert(shape.begin(), is_per_batch(layer) ? 1 : kSamples);
  return at::zeros(shape, like.dtype(type));
}

at::ScalarType found(const ModelGraph& graph, std::size_t number, const std::vector<at::ScalarType>& types, const at::TensorOptions& like) {
  NetworkOptions options{at::typeMetaToScalarType(like.dtype()), like.device()};
  options.layers.assign(graph.layers.size(), false);
  options.layers[number] = true;
  Network network(graph, options);
  std::vector<at::Tensor> values(graph.layers.size());
  for (const int input : graph.layers[number].inputs) {
    const auto i = static_cast<std::size_t>(input);
    values[i] = zeros(graph.layers[i], types[i], like);
  }
  NetworkInput given;
  for (std::int64_t i = 0; i < kSamples; ++i) given.samples.push_back(i);
  return network.forward_layer(number, values, given, true).scalar_type();
}

}  // namespace

std::vector<at::ScalarType> value_types(const ModelGraph& graph, const at::TensorOptions& like, const std::string& precision) {
  const c10::NoGradGuard guard;
  const bool mixed = precision == "bf16" || precision == "fp16";
  const auto own = at::typeMetaToScalarType(like.dtype());
  const Autocast autocast(like.device().type(), precision);
  // What an operator gives depends on what it is, and on the types that it is given, not on sizes.
  std::map<std::tuple<LayerKind, bool, std::size_t, std::vector<at::ScalarType>>, at::ScalarType> known;
  std::vector<at::ScalarType> types;
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    const auto& layer = graph.layers[i];
    if (layer.kind == LayerKind::input || layer.kind == LayerKind::script || !mixed) {
      types.push_back(is_words(layer) ? at::kLong : own);
      continue;
    }
    // What parts exchange stays what it is.
    if (layer.kind == LayerKind::exchange) {
      types.push_back(types[static_cast<std::size_t>(layer.inputs[0])]);
      continue;
    }
    std::vector<at::ScalarType> inputs;
    for (const int input : layer.inputs) inputs.push_back(types[static_cast<std::size_t>(input)]);
    const auto [place, is_new] = known.try_emplace({layer.kind, layer.in_place, layer.parameters.size() + layer.borrowed.size(), inputs}, own);
    if (is_new) place->second = found(graph, i, types, like);
    types.push_back(place->second);
  }
  return types;
}

}  // namespace ddl
