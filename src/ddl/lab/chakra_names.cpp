#include "ddl/lab/chakra_names.h"

#include <iterator>

namespace ddl {
namespace {

/// A node of autograd: by its own name, or in the engine's.
std::vector<std::string> nodes_of(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const auto& name : names) {
    if (!name.starts_with("aten::")) all.push_back("autograd::engine::evaluate_function: " + name);
    all.push_back(name);
  }
  return all;
}

}  // namespace

std::optional<NamedLayer> layer_named(const std::string& node) {
  constexpr std::string_view kConverter = "COMP_NODE_";
  const bool converted = node.starts_with(kConverter);
  const auto end = node.rfind(converted ? '_' : ' ');
  if (end == std::string::npos || (converted && end < kConverter.size())) return {};
  const auto word = node.substr(end + 1);
  auto layer = converted ? node.substr(kConverter.size(), end - kConverter.size()) : node.substr(0, end);
  if (converted) {
    if (word == "FWD") return NamedLayer{layer, LayerPass::forward};
    // Versions differ in whether they say of gradients that these are of backward.
    constexpr std::string_view kBackward = "_BWD";
    if (layer.ends_with(kBackward)) layer.resize(layer.size() - kBackward.size());
    if (word == "IG") return NamedLayer{layer, LayerPass::backward_input};
    if (word == "WG") return NamedLayer{layer, LayerPass::backward_weight};
    return {};
  }
  if (word == "forward") return NamedLayer{layer, LayerPass::forward};
  if (word == "backward") return NamedLayer{layer, LayerPass::backward};
  return {};
}

OperatorNames operators_of(LayerKind kind) {
  const auto made = [](std::vector<std::string> forward, const std::vector<std::string>& backward) { return OperatorNames{std::move(forward), nodes_of(backward)}; };
  switch (kind) {
    case LayerKind::conv2d: return made({"aten::conv2d", "aten::convolution", "aten::_convolution", "aten::mkldnn_convolution", "aten::cudnn_convolution"}, {"ConvolutionBackward0", "aten::convolution_backward"});
    case LayerKind::linear: return made({"aten::linear", "aten::addmm", "aten::mm"}, {"AddmmBackward0", "LinearBackward0", "MmBackward0"});
    case LayerKind::batch_norm2d:
      return made({"aten::batch_norm", "aten::_batch_norm_impl_index", "aten::native_batch_norm", "aten::cudnn_batch_norm"},
                  {"NativeBatchNormBackward0", "CudnnBatchNormBackward0", "aten::native_batch_norm_backward", "aten::cudnn_batch_norm_backward"});
    case LayerKind::layer_norm: return made({"aten::layer_norm", "aten::native_layer_norm"}, {"NativeLayerNormBackward0", "aten::native_layer_norm_backward"});
    case LayerKind::relu: return made({"aten::relu", "aten::relu_"}, {"ReluBackward0", "aten::threshold_backward"});
    case LayerKind::relu6: return made({"aten::relu6", "aten::hardtanh", "aten::hardtanh_"}, {"HardtanhBackward0", "HardtanhBackward1"});
    case LayerKind::gelu: return made({"aten::gelu"}, {"GeluBackward0"});
    case LayerKind::tanh: return made({"aten::tanh"}, {"TanhBackward0"});
    case LayerKind::sigmoid: return made({"aten::sigmoid"}, {"SigmoidBackward0"});
    case LayerKind::max_pool2d: return made({"aten::max_pool2d", "aten::max_pool2d_with_indices"}, {"MaxPool2DWithIndicesBackward0", "aten::max_pool2d_with_indices_backward"});
    case LayerKind::average_pool2d: return made({"aten::avg_pool2d"}, {"AvgPool2DBackward0", "aten::avg_pool2d_backward"});
    case LayerKind::adaptive_average_pool2d: return made({"aten::adaptive_avg_pool2d"}, {"AdaptiveAvgPool2DBackward0", "MeanBackward1"});
    case LayerKind::add: return made({"aten::add_", "aten::add"}, {"AddBackward0"});
    case LayerKind::concatenate: return made({"aten::cat", "aten::concat"}, {"CatBackward0"});
    case LayerKind::dropout: return made({"aten::dropout", "aten::native_dropout"}, {"NativeDropoutBackward0", "FusedDropoutBackward0"});
    case LayerKind::embedding: return made({"aten::embedding"}, {"EmbeddingBackward0", "aten::embedding_dense_backward"});
    case LayerKind::attention: return made({"aten::scaled_dot_product_attention"}, {"ScaledDotProductFlashAttentionBackward0", "ScaledDotProductFlashAttentionForCpuBackward0", "ScaledDotProductEfficientAttentionBackward0"});
    case LayerKind::lstm: return made({"aten::lstm"}, {"MkldnnRnnLayerBackward0", "CudnnRnnBackward0"});
    default: return {};
  }
}

OperatorNames operators_of_loss() { return {{"aten::cross_entropy_loss", "aten::nll_loss_nd", "aten::nll_loss", "aten::nll_loss_forward"}, nodes_of({"NllLossBackward0", "aten::nll_loss_backward"})}; }

bool may_be_untold(LayerKind kind) {
  switch (kind) {
    case LayerKind::flatten:
    case LayerKind::dropout:
    case LayerKind::scale:
    case LayerKind::add:
    case LayerKind::concatenate:
    case LayerKind::positions: return true;
    default: return false;
  }
}

std::string collective_of_chakra(int type) {
  static constexpr const char* kNames[] = {"all-reduce", "reduce", "all-gather", "gather", "scatter", "broadcast", "all-to-all", "reduce-scatter", "reduce-scatter", "barrier"};
  return type < 0 || type >= static_cast<int>(std::size(kNames)) ? "" : kNames[type];
}

}  // namespace ddl
