#include "ddl/nn/graph.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ddl {
namespace {

template <typename Of>
std::int64_t sum(const std::vector<Layer>& layers, const Of& of) {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0},
                         [&](std::int64_t before, const Layer& layer) { return before + of(layer); });
}

std::vector<ParameterSpec> specs(const std::vector<Layer>& layers, bool trainable) {
  std::vector<ParameterSpec> some;
  for (const auto& layer : layers)
    for (const auto& spec : layer.parameters)
      if (spec.trainable == trainable) some.push_back(spec);
  return some;
}

std::int64_t elements(const std::vector<Layer>& layers, bool trainable) {
  std::int64_t all = 0;
  for (const auto& spec : specs(layers, trainable)) all += spec.elements();
  return all;
}

}  // namespace

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string to_string(const std::vector<std::int64_t>& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

Initialiser Initialiser::uniform_fan_in(std::int64_t fan_in) { return uniform(1.0F / std::sqrt(static_cast<float>(fan_in))); }

Initialiser Initialiser::he_normal(std::int64_t fan) { return normal(std::sqrt(2.0F / static_cast<float>(fan))); }

Initialiser Initialiser::glorot_uniform(std::int64_t fan_in, std::int64_t fan_out) {
  return uniform(std::sqrt(6.0F / static_cast<float>(fan_in + fan_out)));
}

const std::vector<IndexRange>* TensorPiece::along(int dimension) const {
  const auto found = std::find_if(cuts.begin(), cuts.end(), [&](const Cut& cut) { return cut.dimension == dimension; });
  return found == cuts.end() ? nullptr : &found->ranges;
}

std::int64_t ParameterSpec::elements() const { return elements_of(shape); }

std::int64_t ModelGraph::parameters() const { return elements(layers, true); }
std::int64_t ModelGraph::frozen_parameters() const { return elements(layers, false); }

std::int64_t ModelGraph::flops() const {
  return sum(layers, [](const Layer& layer) { return layer.flops; });
}

std::int64_t ModelGraph::multiply_adds() const {
  return sum(layers, [](const Layer& layer) { return layer.auxiliary ? 0 : layer.multiply_adds; });
}

std::int64_t ModelGraph::kept_elements() const {
  return sum(layers, [](const Layer& layer) { return layer.kept_elements; });
}

bool has_wide_convolutions(const ModelGraph& graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.kind == LayerKind::conv2d && layer.shape[0] >= 32; });
}

bool channels_lie_last(const ModelGraph& graph, bool dense_planes) {
  const auto in_groups = [](const Layer& layer) { return layer.kind == LayerKind::conv2d && layer.attributes.groups > 1; };
  return has_wide_convolutions(graph) && (!dense_planes || std::any_of(graph.layers.begin(), graph.layers.end(), in_groups));
}

std::vector<ParameterSpec> ModelGraph::parameter_specs() const { return specs(layers, true); }
std::vector<ParameterSpec> ModelGraph::frozen_specs() const { return specs(layers, false); }

}  // namespace ddl
