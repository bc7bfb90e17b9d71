#include "ddl/nn/split/rules.h"

#include "ddl/core/error.h"

namespace ddl {

SplitRule split_rule_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::conv2d:
    case LayerKind::linear: return split_product;
    case LayerKind::max_pool2d:
    case LayerKind::average_pool2d: return split_window;
    case LayerKind::adaptive_average_pool2d: return split_adaptive_pool;
    case LayerKind::batch_norm2d: return split_batch_norm;
    case LayerKind::layer_norm: return split_layer_norm;
    case LayerKind::relu:
    case LayerKind::relu6:
    case LayerKind::gelu:
    case LayerKind::tanh:
    case LayerKind::sigmoid:
    case LayerKind::scale:
    case LayerKind::dropout:
    case LayerKind::wait:
    case LayerKind::merge_moments: return split_pointwise;
    case LayerKind::add: return split_add;
    case LayerKind::concatenate: return split_concatenate;
    case LayerKind::flatten: return split_flatten;
    case LayerKind::embedding: return split_embedding;
    case LayerKind::positions: return split_positions;
    case LayerKind::attention: return split_attention;
    // The gates of a step need all of the step before; a script is opaque.
    case LayerKind::lstm:
    case LayerKind::script:
    case LayerKind::input: return run_whole;
    case LayerKind::exchange: return split_exchange;
    case LayerKind::bias: return split_bias;
    case LayerKind::batch_moments: return split_batch_moments;
    case LayerKind::batch_normalise: return split_batch_normalise;
  }
  invariant(false, "every kind of layer has a rule");
  return nullptr;
}

void run_whole(Splitter& s, int layer) {
  std::vector<int> inputs;
  for (const int input : s.whole(layer).inputs) inputs.push_back(s.read(input, Layout::whole()));
  auto made = s.like(layer, Layout::whole());
  made.inputs = std::move(inputs);
  s.give(layer, std::move(made), Layout::whole());
}

void cut_bias(Splitter& s, Layer& made, const Layout& home) {
  const auto rank = static_cast<int>(made.shape.size());
  if (home.is_split(rank == 3 ? 0 : rank - 1))
    cut(made.parameters[0], 0, s.mine(home));
  else if (home.is_split())
    s.mark_partial(made);
}

void complete_with_bias(Splitter& s, int layer, int partial, const std::vector<ParameterSpec>& bias, const Layout& to) {
  const int complete = s.complete(layer, partial, to);
  if (bias.empty()) {
    s.give(layer, complete, to);
    return;
  }
  auto made = s.like(layer, to);
  made.name = s.name_beside(layer, "add_bias");
  made.kind = LayerKind::bias;
  made.inputs = {complete};
  made.attributes = {};
  made.borrowed.clear();
  made.parameters = bias;
  made.multiply_adds = 0;
  made.flops = elements_of(made.shape);
  made.keeps = {};
  cut_bias(s, made, to);
  s.give(layer, std::move(made), to);
}

}  // namespace ddl
