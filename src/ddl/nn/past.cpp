#include "ddl/nn/past.h"

#include <algorithm>

#include <ATen/ATen.h>

namespace ddl {
namespace {

/// `reads` is of the layers before it.
bool places_follow_from_those_before(const Layer& layer, const std::vector<bool>& reads) {
  switch (layer.kind) {
    case LayerKind::input:
    case LayerKind::layer_norm:
    case LayerKind::relu:
    case LayerKind::relu6:
    case LayerKind::gelu:
    case LayerKind::tanh:
    case LayerKind::sigmoid:
    case LayerKind::scale:
    case LayerKind::dropout:
    case LayerKind::embedding:
    case LayerKind::positions:
    case LayerKind::wait: return true;
    // Of the last of several dimensions; of a single one it would mix places.
    case LayerKind::linear: return layer.shape.size() > 1;
    case LayerKind::add:
      return std::all_of(layer.inputs.begin(), layer.inputs.end(), [&](int from) { return reads[static_cast<std::size_t>(from)]; });
    case LayerKind::attention: {
      const bool itself = layer.inputs[0] == layer.inputs[1];
      if (itself) return layer.attributes.causal && layer.inputs.size() == 2;
      return !layer.attributes.causal && reads[static_cast<std::size_t>(layer.inputs[0])] &&
             std::none_of(layer.inputs.begin() + 1, layer.inputs.end(), [&](int from) { return reads[static_cast<std::size_t>(from)]; });
    }
    case LayerKind::lstm:
      return reads[static_cast<std::size_t>(layer.inputs[0])] && (layer.inputs.size() == 1 || !reads[static_cast<std::size_t>(layer.inputs[1])]);
    default: return false;
  }
}

}  // namespace

std::vector<bool> reads_target(const ModelGraph& graph) {
  std::vector<bool> reads;
  for (const auto& layer : graph.layers)
    reads.push_back((layer.kind == LayerKind::input && layer.attributes.part == InputPart::target) ||
                    std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int from) { return reads[static_cast<std::size_t>(from)]; }));
  return reads;
}

bool goes_word_by_word(const ModelGraph& graph) {
  const auto reads = reads_target(graph);
  for (std::size_t i = 0; i < graph.layers.size(); ++i)
    if (reads[i] && !graph.layers[i].auxiliary && !places_follow_from_those_before(graph.layers[i], reads)) return false;
  return true;
}

std::pair<at::Tensor, at::Tensor> Past::extend(int layer, const at::Tensor& first, const at::Tensor& second) {
  auto& kept = of(layer);
  // Room for all places at once: growing by copies would move every word's as often as words follow it.
  const auto room = [&](const at::Tensor& one) { return at::empty({one.size(0), one.size(1), longest_, one.size(3)}, one.options()); };
  if (!kept.first.defined()) kept = {room(first), room(second), true};
  kept.first.narrow(2, places_, 1).copy_(first);
  kept.second.narrow(2, places_, 1).copy_(second);
  return {kept.first.narrow(2, 0, places_ + 1), kept.second.narrow(2, 0, places_ + 1)};
}

void Past::keep(const at::Tensor& samples) {
  for (auto& kept : layers_) {
    for (auto* tensor : {&kept.first, &kept.second}) {
      if (!tensor->defined()) continue;
      if (!kept.grows) {
        *tensor = tensor->index_select(0, samples);
        continue;
      }
      auto fewer = at::empty({samples.size(0), tensor->size(1), longest_, tensor->size(3)}, tensor->options());
      fewer.narrow(2, 0, places_).copy_(tensor->narrow(2, 0, places_).index_select(0, samples));
      *tensor = fewer;
    }
  }
}

}  // namespace ddl
