#include <algorithm>
#include <utility>

#include "ddl/nn/graph_builder.h"

#include <fmt/format.h>

namespace ddl {

int GraphBuilder::lstm(const std::string& name, int from, std::int64_t hidden, const WeightInitialiser& weight, int first) {
  Layer layer{name, LayerKind::lstm, {from}};
  require_rank(layer, 2);
  const auto length = shape(from)[0], features = shape(from)[1];
  if (first >= 0) {
    if (shape(first) != std::vector<std::int64_t>{features})
      fail(name, fmt::format("is given first what is like its other inputs; got {}, expected {}", to_string(shape(first)), features));
    layer.inputs.push_back(first);
  }
  layer.shape = {length, hidden};
  const auto start = weight(features, hidden);
  layer.parameters = {{name + ".weight_ih_l0", {4 * hidden, features}, start},
                      {name + ".weight_hh_l0", {4 * hidden, hidden}, weight(hidden, hidden)},
                      {name + ".bias_ih_l0", {4 * hidden}, Initialiser::forget(1)},
                      {name + ".bias_hh_l0", {4 * hidden}}};
  const auto steps = length + (first >= 0 ? 1 : 0);
  layer.multiply_adds = steps * 4 * hidden * (features + hidden);
  // Five transcendental functions of ten operations each, and four products or sums, per cell.
  layer.flops = 2 * layer.multiply_adds + steps * hidden * (8 + 5 * 10 + 4);
  // Outputs, the states before the first step and at the end, and oneDNN's workspace of gates and states (3.7; found by
  // asking autograd what it keeps, within 3 % from 32 to 64 units).
  const auto workspace = (steps + 1) * (10 * hidden + 6 * std::max(features, hidden));
  return append(std::move(layer), {.inputs = true, .extra = steps * hidden + 3 * hidden + workspace});
}

}  // namespace ddl
