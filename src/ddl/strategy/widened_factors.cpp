#include "ddl/strategy/widened_factors.h"

#include <algorithm>

#include "ddl/core/at.h"
#include "ddl/nn/matrix_products.h"

namespace ddl {
namespace {

constexpr std::int64_t kWide = sizeof(float), kNarrow = 2;

/// [rows, seen] by [seen, made].
WidenedFactors of_matrices(std::int64_t rows, std::int64_t seen, std::int64_t made) {
  const auto all = kWide * (rows * seen + seen * made + rows * made);
  return {all, all, kWide * rows * (seen + made)};
}

WidenedFactors most_of(const WidenedFactors& a, const WidenedFactors& b) {
  return {std::max(a.forward, b.forward), std::max(a.of_inputs, b.of_inputs), std::max(a.of_weights, b.of_weights)};
}

WidenedFactors of_attention(const ModelGraph& graph, const Layer& layer, std::int64_t samples) {
  WidenedFactors most;
  const auto rows_of = [&](std::size_t input) { return samples * graph.layers[at(layer.inputs[input])].shape.front(); };
  const auto& in = layer.parameters.front().shape;
  const auto features = in.front() / 3, seen = in.back();
  // Of queries, keys and values at once where they are of the same; else of queries, and of both others.
  if (layer.inputs[0] == layer.inputs[1])
    most = of_matrices(rows_of(0), seen, 3 * features);
  else
    most = most_of(of_matrices(rows_of(0), seen, features), of_matrices(rows_of(1), seen, 2 * features));
  return most_of(most, of_matrices(rows_of(0), features, layer.shape.back()));
}

WidenedFactors of_convolution(const ModelGraph& graph, int number, std::int64_t samples, bool with_inputs) {
  const auto& layer = graph.layers[at(number)];
  const auto maps = elements_of(graph.layers[at(layer.inputs[0])].shape) * samples, made = elements_of(layer.shape) * samples;
  switch (way_of(graph, number, samples)) {
    case ConvolutionWay::tiles: return {};
    case ConvolutionWay::other: {
      // ATen's, of fp32 from end to end, and backward gives all gradients back at once. The weights are fp32 already.
      const auto both = kWide * (maps + made), back = both + (with_inputs ? kWide * maps : 0);
      return {both, back, back};
    }
    case ConvolutionWay::product: break;
  }
  const auto channels = layer.shape.front(), places = made / channels;
  const auto seen = layer.parameters.front().elements() / channels;
  auto product = of_matrices(places, seen, channels);
  if (places * seen == maps) return product;
  // What windows see is a matrix of its own, narrow; backward has the like in the place of the maps' gradient, which is folded of it once all that is wide has gone.
  const auto unfolded = kNarrow * places * seen;
  product.forward += unfolded;
  product.of_inputs = std::max(unfolded, product.of_inputs + unfolded - kNarrow * maps);
  product.of_weights += unfolded;
  return product;
}

}  // namespace

WidenedFactors widened_factors(const ModelGraph& graph, int number, std::int64_t samples, bool with_inputs) {
  const auto& layer = graph.layers[at(number)];
  WidenedFactors found;
  switch (layer.kind) {
    case LayerKind::linear: {
      const auto made = layer.shape.back(), rows = elements_of(layer.shape) / made * samples;
      found = of_matrices(rows, elements_of(graph.layers[at(layer.inputs[0])].shape) * samples / rows, made);
      break;
    }
    case LayerKind::attention: found = of_attention(graph, layer, samples); break;
    case LayerKind::conv2d: found = of_convolution(graph, number, samples, with_inputs); break;
    default: break;
  }
  if (!with_inputs) found.of_inputs = 0;
  return found;
}

}  // namespace ddl
