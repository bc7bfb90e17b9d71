#include "ddl/nn/graph_builder.h"

#include <algorithm>
#include <utility>

#include "ddl/core/error.h"

namespace ddl {

Initialiser torch_weights(std::int64_t fan_in, std::int64_t) { return Initialiser::uniform_fan_in(fan_in); }
Initialiser he_weights(std::int64_t, std::int64_t fan_out) { return Initialiser::he_normal(fan_out); }
Initialiser glorot_weights(std::int64_t fan_in, std::int64_t fan_out) { return Initialiser::glorot_uniform(fan_in, fan_out); }

WeightInitialiser normal_weights(float deviation) {
  return [deviation](std::int64_t, std::int64_t) { return Initialiser::normal(deviation); };
}

WeightInitialiser uniform_weights(float bound) {
  return [bound](std::int64_t, std::int64_t) { return Initialiser::uniform(bound); };
}

GraphBuilder::GraphBuilder(std::string name) { graph_.name = std::move(name); }

GraphBuilder::GraphBuilder(std::string name, std::vector<std::int64_t> images) : GraphBuilder(std::move(name)) {
  input("input", InputPart::images, std::move(images));
}

int GraphBuilder::input(const std::string& name, InputPart part, std::vector<std::int64_t> shape) {
  Layer layer{name, LayerKind::input, {}, std::move(shape)};
  layer.attributes.part = part;
  if (std::any_of(layer.shape.begin(), layer.shape.end(), [](auto size) { return size < 1; }))
    fail(name, fmt::format("holds at least one element; got samples of {}", to_string(layer.shape)));
  return append(std::move(layer), {});
}

int GraphBuilder::append(Layer layer, Keeps keeps) {
  if (frozen_) {
    layer.frozen = true;
    for (auto& spec : layer.parameters) spec.trainable = false;
  }
  layer.keeps = keeps;
  graph_.layers.push_back(std::move(layer));
  return static_cast<int>(graph_.layers.size()) - 1;
}

void GraphBuilder::fail(const std::string& layer, const std::string& what) const {
  throw Error(Code::invalid_argument, fmt::format("[{}] layer '{}' {}", graph_.name, layer, what));
}

void GraphBuilder::require_rank(const Layer& layer, std::size_t rank) const {
  for (const int from : layer.inputs)
    if (shape(from).size() != rank)
      fail(layer.name, fmt::format("takes samples of {} dimensions; got {}", rank, to_string(shape(from))));
}

/// For a layer whose weight of `expected` is the first parameter of layer `tied`.
Borrowed GraphBuilder::borrow(const std::string& layer, int tied, const std::vector<std::int64_t>& expected) const {
  if (tied >= static_cast<int>(graph_.layers.size()))
    fail(layer, fmt::format("borrows a weight of a layer before it; got {}, expected 0 to {}", tied, graph_.layers.size() - 1));
  const auto& owner = graph_.layers[static_cast<std::size_t>(tied)];
  if (owner.parameters.empty() || owner.parameters[0].shape != expected)
    fail(layer, fmt::format("borrows a weight of {}; got {} of layer '{}'", to_string(expected),
                            owner.parameters.empty() ? "none" : to_string(owner.parameters[0].shape), owner.name));
  return {tied, 0};
}

ModelGraph GraphBuilder::finish() && {
  mark_auxiliary(graph_);
  count_kept(graph_);
  return std::move(graph_);
}

}  // namespace ddl
