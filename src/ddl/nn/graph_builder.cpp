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
  graph_.layers.push_back(std::move(layer));
  keeps_.push_back(keeps);
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

/// What only the auxiliary output needs.
void GraphBuilder::mark_auxiliary() {
  if (graph_.auxiliary < 0) return;
  auto& layers = graph_.layers;
  std::vector<bool> needed(layers.size());
  needed.back() = true;
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (needed[i])
      for (const int input : layers[i].inputs) needed[static_cast<std::size_t>(input)] = true;
    layers[i].auxiliary = !needed[i] && layers[i].kind != LayerKind::input;
  }
}

/// Each piece of memory counts once, with the layer that made it, however many layers keep it; and who may write over its
/// input is found by the same rules: autograd refuses to go backward through what was kept and then changed.
void GraphBuilder::count_kept() {
  auto& layers = graph_.layers;
  const auto n = layers.size();
  std::vector<std::size_t> memory(n), last_use(n);
  std::vector<bool> learns(n);
  std::vector<int> kept_by(n);
  const auto at = [](int number) { return static_cast<std::size_t>(number); };
  for (std::size_t i = 0; i < n; ++i) {
    auto& layer = layers[i];
    learns[i] = std::any_of(layer.parameters.begin(), layer.parameters.end(), [](const auto& spec) { return spec.trainable; }) ||
                !layer.borrowed.empty() || std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int input) { return learns[at(input)]; });
    memory[i] = keeps_[i].view ? memory[at(layer.inputs[0])] : i;
    for (const int input : layer.inputs) last_use[memory[at(input)]] = i;
    if (!learns[i]) continue;
    if (keeps_[i].inputs)
      for (const int input : layer.inputs) ++kept_by[memory[at(input)]];
    if (keeps_[i].output) ++kept_by[memory[i]];
  }
  for (const int output : {static_cast<int>(n) - 1, graph_.auxiliary})
    if (output >= 0) last_use[memory[at(output)]] = n;
  // In evaluation dropout hands its input on: whoever reads the one reads the other.
  for (std::size_t i = n; i-- > 0;)
    if (layers[i].kind == LayerKind::dropout) {
      auto& last = last_use[memory[at(layers[i].inputs[0])]];
      last = std::max(last, last_use[i]);
    }

  for (std::size_t i = 0; i < n; ++i) {
    auto& layer = layers[i];
    if (!keeps_[i].can_overwrite) continue;
    const auto over = memory[at(layer.inputs[0])];
    const bool read_twice = std::count_if(layer.inputs.begin(), layer.inputs.end(), [&](int input) { return memory[at(input)] == over; }) > 1;
    // The same the other way round: others may still need dropout's input.
    const bool somebody_elses = layers[over].kind == LayerKind::input || layers[over].kind == LayerKind::dropout;
    layer.in_place = last_use[over] == i && !read_twice && kept_by[over] == 0 && !somebody_elses;
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (learns[i]) layers[i].kept_elements = keeps_[i].extra;
    if (kept_by[i] > 0) layers[i].kept_elements += elements_of(layers[i].shape);
  }
}

ModelGraph GraphBuilder::finish() && {
  mark_auxiliary();
  count_kept();
  return std::move(graph_);
}

}  // namespace ddl
