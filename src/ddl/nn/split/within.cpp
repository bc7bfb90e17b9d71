#include "ddl/nn/split/within.h"

#include <algorithm>
#include <array>

#include "ddl/core/error.h"
#include "ddl/nn/split/layout.h"

namespace ddl {
namespace {

std::array<std::vector<ParameterSpec>*, 3> tensors_of(Layer& layer) { return {&layer.parameters, &layer.statistics, &layer.constants}; }

/// A layer's tensors keep their names, to whichever layer beside it they go.
const ParameterSpec& named(const Layer& layer, const std::string& name) {
  for (const auto* specs : {&layer.parameters, &layer.statistics, &layer.constants})
    for (const auto& spec : *specs)
      if (spec.name == name) return spec;
  invariant(false, "what a layer of a part has, the layer that it comes of has");
  return layer.parameters.front();
}

void set_within(const ParameterSpec& outer, ParameterSpec& spec, int axis) {
  auto cut_along = outer.cut_along;
  if (spec.piece) cut_along.push_back(axis);
  spec.cut_along = std::move(cut_along);
  spec.partial_along.insert(spec.partial_along.begin(), outer.partial_along.begin(), outer.partial_along.end());
  spec.piece = piece_within(outer.piece, spec.piece);
}

}  // namespace

ModelGraph as_whole(ModelGraph part) {
  for (auto& layer : part.layers) {
    layer.piece.reset();
    for (auto* specs : tensors_of(layer))
      for (auto& spec : *specs) {
        spec.piece.reset();
        spec.cut_along.clear();
        spec.partial_along.clear();
      }
  }
  return part;
}

void set_within(const ModelGraph& outer, ModelGraph& part, int axis) {
  for (auto& layer : part.layers) {
    const auto& of = outer.layers[static_cast<std::size_t>(layer.origin)];
    // What is no value of that layer, but beside it, is a piece of nothing in the whole network.
    if ((layer.piece ? layer.piece->whole : layer.shape) == of.shape) layer.piece = piece_within(of.piece, layer.piece);
    for (auto* specs : tensors_of(layer))
      for (auto& spec : *specs) set_within(named(of, spec.name), spec, axis);
    if (of.origin >= 0) layer.origin = of.origin;
  }
}

}  // namespace ddl
