#include "ddl/strategy/value_widths.h"

#include <algorithm>

#include "ddl/core/at.h"
#include "ddl/nn/matrix_products.h"

namespace ddl {
namespace {

constexpr std::int64_t kNarrow = 2;

}  // namespace

bool multiplies(const Layer& layer) { return layer.kind == LayerKind::conv2d || layer.kind == LayerKind::linear || layer.kind == LayerKind::attention; }

ValueWidths::ValueWidths(const StrategyInput& input) : input_(input) {
  const auto& layers = input.graph.layers;
  const auto wide = input.element_bytes;
  for (const auto& layer : layers) {
    std::int64_t own = wide, copied = 0;
    if (input.mixed && multiplies(layer)) {
      own = kNarrow;
      for (std::size_t i = 0; i < layer.inputs.size(); ++i)
        if (const auto read = at(layer.inputs[i]); bytes[read] > kNarrow && std::find(layer.inputs.begin(), layer.inputs.begin() + static_cast<std::ptrdiff_t>(i), layer.inputs[i]) == layer.inputs.begin() + static_cast<std::ptrdiff_t>(i))
          copied += elements_of(layers[read].shape) * kNarrow;
    } else if (input.mixed && !layer.inputs.empty() && layer.kind != LayerKind::embedding && layer.kind != LayerKind::lstm && layer.kind != LayerKind::positions && layer.kind != LayerKind::script) {
      own = 0;
      for (const int read : layer.inputs) own = std::max(own, bytes[at(read)]);
      if (layer.kind == LayerKind::layer_norm && !input.own_kernels) own = wide;
    }
    bytes.push_back(own);
    copied_bytes.push_back(copied);
  }
}

std::int64_t ValueWidths::extra(int layer, const Keeps& keeps) const {
  const auto& of = input_.graph.layers[at(layer)];
  const auto wide = input_.element_bytes;
  if (!input_.mixed || !multiplies(of)) return keeps.own() * wide;
  if (of.kind != LayerKind::attention) return keeps.padded * kNarrow + keeps.extra * wide;
  // All but each row's sum of exponentials is narrow.
  const auto sums = of.attributes.heads * of.shape.front();
  return (keeps.extra - sums) * kNarrow + sums * wide;
}

std::int64_t ValueWidths::weights(int layer, std::int64_t samples) const {
  const auto& of = input_.graph.layers[at(layer)];
  if (!input_.mixed || !multiplies(of)) return 0;
  // Tiles are made of the weights as they are, and a convolution in fp32 takes them so.
  const auto way = input_.own_kernels && of.kind == LayerKind::conv2d ? way_of(input_.graph, layer, samples) : ConvolutionWay::product;
  if (way == ConvolutionWay::tiles || (way == ConvolutionWay::other && input_.widens)) return 0;
  std::int64_t elements = 0;
  for (const auto& parameter : of.parameters)
    if (parameter.shape.size() > 1) elements += parameter.elements();
  for (const auto& tied : of.borrowed) elements += input_.graph.layers[at(tied.layer)].parameters[at(tied.parameter)].elements();
  return elements * kNarrow;
}

}  // namespace ddl
