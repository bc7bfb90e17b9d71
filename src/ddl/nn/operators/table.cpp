#include "ddl/core/error.h"
#include "ddl/nn/operators/operator.h"

namespace ddl {

Operator operator_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::conv2d: return convolve;
    case LayerKind::batch_norm2d: return normalise_batch;
    case LayerKind::layer_norm: return normalise_layer;
    case LayerKind::relu: return relu;
    case LayerKind::relu6: return relu6;
    case LayerKind::gelu: return gelu;
    case LayerKind::tanh: return tanh;
    case LayerKind::sigmoid: return sigmoid;
    case LayerKind::max_pool2d: return max_pool;
    case LayerKind::average_pool2d: return average_pool;
    case LayerKind::adaptive_average_pool2d: return adaptive_average_pool;
    case LayerKind::flatten: return flatten;
    case LayerKind::linear: return linear;
    case LayerKind::add: return add;
    case LayerKind::concatenate: return concatenate;
    case LayerKind::scale: return scale;
    case LayerKind::dropout: return drop_out;
    case LayerKind::embedding: return embed;
    case LayerKind::positions: return add_positions;
    case LayerKind::attention: return attend;
    case LayerKind::lstm: return run_lstm;
    case LayerKind::wait: return wait;
    case LayerKind::script: return run_script;
    case LayerKind::exchange: return exchange;
    case LayerKind::bias: return add_bias;
    case LayerKind::batch_moments: return take_moments;
    case LayerKind::merge_moments: return merge_moments;
    case LayerKind::batch_normalise: return normalise_by_moments;
    case LayerKind::input: break;
  }
  invariant(false, "an input layer is given, not computed");
  return nullptr;
}

}  // namespace ddl
