// Convolution, normalisation and pooling.
#include <limits>

#include <ATen/Parallel.h>

#include "ddl/nn/operators/operator.h"

namespace ddl {
namespace {

std::array<std::int64_t, 2> both(const Pair& pair) { return {pair.height, pair.width}; }

/// Maps with what surrounds them made explicit, where it is not the same on both sides: a piece of a map has padding at the whole one's edge.
struct Padded {
  at::Tensor maps;
  std::array<std::int64_t, 2> padding;  ///< that is still to come
};

Padded pad(const OperatorContext& c, double with) {
  const auto& a = c.layer.attributes;
  const auto &before = a.padding, &after = a.padding_after;
  const bool height = after.height >= 0 && after.height != before.height, width = after.width >= 0 && after.width != before.width;
  if (!height && !width) return {c.inputs[0], both(before)};
  const auto if_told = [](bool told, std::int64_t size) { return told ? size : 0; };
  return {at::constant_pad_nd(c.inputs[0], {if_told(width, before.width), if_told(width, after.width), if_told(height, before.height), if_told(height, after.height)}, with),
          {if_told(!height, before.height), if_told(!width, before.width)}};
}

/// ATen leaves a 1x1 convolution of few samples on one thread to a kernel that unfolds maps channels first (use_mkldnn() in its Convolution.cpp: fewer than 16), which copies
/// maps that lie channels last on their way there and back. As these lie, they are the matrix of one product: decisions/028.
bool is_product(const OperatorContext& c, const at::Tensor& maps) {
  const auto& a = c.layer.attributes;
  constexpr std::int64_t kManySamples = 16;
  return c.options.kernels == Kernels::fast && a.kernel == Pair{1, 1} && a.stride == Pair{1, 1} && a.padding == Pair{0, 0} && a.groups == 1 && maps.device().is_cpu() &&
         maps.size(0) < kManySamples && at::get_num_threads() == 1 && maps.is_contiguous(at::MemoryFormat::ChannelsLast);
}

/// [n, channels, height, width] channels last -> the same of other channels.
at::Tensor multiply_pixels(const at::Tensor& maps, const at::Tensor& weight, const at::Tensor& bias) {
  const auto n = maps.size(0), height = maps.size(2), width = maps.size(3), before = weight.size(1), after = weight.size(0);
  const auto pixels = maps.permute({0, 2, 3, 1}).view({n * height * width, before});
  return at::linear(pixels, weight.view({after, before}), bias).view({n, height, width, after}).permute({0, 3, 1, 2});
}

}  // namespace

at::Tensor convolve(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  const auto [maps, padding] = pad(c, 0);
  if (is_product(c, maps)) return multiply_pixels(maps, c.own.parameters[0], c.own.parameters.size() > 1 ? c.own.parameters[1] : at::Tensor());
  return at::conv2d(maps, c.own.parameters[0], c.own.parameters.size() > 1 ? c.own.parameters[1] : at::Tensor(), both(a.stride),
                    padding, 1, a.groups);
}

at::Tensor normalise_batch(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  return at::batch_norm(c.inputs[0], c.own.parameters[0], c.own.parameters[1], c.own.statistics[0], c.own.statistics[1],
                        c.training && !c.layer.frozen, a.momentum, a.epsilon, false);
}

at::Tensor normalise_layer(const OperatorContext& c) {
  return at::layer_norm(c.inputs[0], {c.layer.shape.back()}, c.own.parameters[0], c.own.parameters[1], c.layer.attributes.epsilon);
}

at::Tensor max_pool(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  const auto [maps, padding] = pad(c, -std::numeric_limits<double>::infinity());
  return at::max_pool2d(maps, both(a.kernel), both(a.stride), padding);
}

at::Tensor average_pool(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  const auto [maps, padding] = pad(c, 0);
  if (a.count_padding || maps.is_same(c.inputs[0])) return at::avg_pool2d(maps, both(a.kernel), both(a.stride), padding, false, a.count_padding);
  // Pixels that are none count neither above nor below.
  const auto ones = pad({c.layer, c.number, c.own, {at::ones_like(c.inputs[0])}, c.given, c.training, c.options, c.script, c.past}, 0).maps;
  const auto mean = [&](const at::Tensor& x) { return at::avg_pool2d(x, both(a.kernel), both(a.stride), padding, false, false); };
  return mean(maps).div(mean(ones));
}

at::Tensor adaptive_average_pool(const OperatorContext& c) {
  return at::adaptive_avg_pool2d(c.inputs[0], {c.layer.shape[1], c.layer.shape[2]});
}

}  // namespace ddl
