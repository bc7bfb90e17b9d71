#include <algorithm>

#include "ddl/nn/graph.h"
#include "ddl/nn/recompute_cuts.h"

namespace ddl {

void mark_auxiliary(ModelGraph& graph) {
  if (graph.auxiliary < 0) return;
  auto& layers = graph.layers;
  std::vector<bool> needed(layers.size());
  needed.back() = true;
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (needed[i])
      for (const int input : layers[i].inputs) needed[static_cast<std::size_t>(input)] = true;
    layers[i].auxiliary = layers[i].auxiliary || (!needed[i] && layers[i].kind != LayerKind::input);
  }
}

/// Each piece of memory counts once, with the layer that made it, however many layers keep it; and who may write over its
/// input is found by the same rules: autograd refuses to go backward through what was kept and then changed.
void count_kept(ModelGraph& graph) {
  auto& layers = graph.layers;
  const auto n = layers.size();
  std::vector<std::size_t> memory(n), last_use(n);
  std::vector<bool> learns(n);
  std::vector<int> kept_by(n);
  // Between two exchanges a split network is one piece of work; what comes from before it others may still be sending.
  std::vector<int> work(n);
  const auto at = [](int number) { return static_cast<std::size_t>(number); };
  for (std::size_t i = 0; i < n; ++i) {
    auto& layer = layers[i];
    work[i] = (i > 0 ? work[i - 1] : 0) + (layer.kind == LayerKind::exchange ? 1 : 0);
    learns[i] = std::any_of(layer.parameters.begin(), layer.parameters.end(), [](const auto& spec) { return spec.trainable; }) ||
                !layer.borrowed.empty() || std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int input) { return learns[at(input)]; });
    memory[i] = layers[i].keeps.view ? memory[at(layer.inputs[0])] : i;
    for (const int input : layer.inputs) last_use[memory[at(input)]] = i;
    if (!learns[i]) continue;
    if (layers[i].keeps.inputs)
      for (const int input : layer.inputs) ++kept_by[memory[at(input)]];
    if (layers[i].keeps.output) ++kept_by[memory[i]];
  }
  for (const int output : {static_cast<int>(n) - 1, graph.auxiliary})
    if (output >= 0) last_use[memory[at(output)]] = n;
  // In evaluation dropout hands its input on: whoever reads the one reads the other.
  for (std::size_t i = n; i-- > 0;)
    if (layers[i].kind == LayerKind::dropout) {
      auto& last = last_use[memory[at(layers[i].inputs[0])]];
      last = std::max(last, last_use[i]);
    }

  for (std::size_t i = 0; i < n; ++i) {
    auto& layer = layers[i];
    if (!layers[i].keeps.can_overwrite) continue;
    const auto over = memory[at(layer.inputs[0])];
    const bool read_twice = std::count_if(layer.inputs.begin(), layer.inputs.end(), [&](int input) { return memory[at(input)] == over; }) > 1;
    // The same the other way round: others may still need dropout's input.
    const bool somebody_elses = layers[over].kind == LayerKind::input || layers[over].kind == LayerKind::dropout ||
                                layers[over].kind == LayerKind::exchange || work[over] != work[i];
    layer.in_place = last_use[over] == i && !read_twice && kept_by[over] == 0 && !somebody_elses;
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (learns[i]) layers[i].kept_elements = layers[i].keeps.own();
    if (kept_by[i] > 0) layers[i].kept_elements += elements_of(layers[i].shape);
  }
}

bool rectifies_for_pool(const ModelGraph& graph, const std::vector<std::size_t>& last_use, std::size_t at) {
  const auto next = at + 1;
  return graph.layers[at].kind == LayerKind::relu && next < graph.layers.size() && graph.layers[next].kind == LayerKind::max_pool2d && last_use[at] == next;
}

bool rectifies_at_once(const ModelGraph& graph, const std::vector<std::size_t>& last_use, std::size_t at) {
  const auto& layers = graph.layers;
  const auto kind = layers[at].kind;
  const auto next = at + 1;
  return (kind == LayerKind::conv2d || kind == LayerKind::linear) && next < layers.size() && layers[next].kind == LayerKind::relu && last_use[at] == next && !rectifies_for_pool(graph, last_use, next);
}

std::vector<Keeps> kept_by_own_kernels(const ModelGraph& graph) {
  const auto& layers = graph.layers;
  const auto last_use = last_uses(graph);
  std::vector<Keeps> keeps;
  for (const auto& layer : layers) keeps.push_back(layer.keeps);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    // With other padding before than behind it is ATen's.
    if (layers[i].kind != LayerKind::max_pool2d || keeps[i].padded > 0) continue;
    keeps[i].inputs = false;
    keeps[i].extra = (elements_of(layers[i].shape) + 3) / 4;
    if (rectifies_for_pool(graph, last_use, i - 1)) keeps[i - 1] = {.view = true};
  }
  return keeps;
}

}  // namespace ddl
