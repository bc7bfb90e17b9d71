// Convolution, normalisation and pooling.
#include <limits>
#include <optional>

#include "ddl/nn/matrix_products.h"
#include "ddl/nn/operators/batch_norm.h"
#include "ddl/nn/operators/depthwise.h"
#include "ddl/nn/operators/max_pool.h"
#include "ddl/nn/operators/operator.h"
#include "ddl/nn/operators/product.h"
#include "ddl/nn/operators/wide_convolution.h"
#include "ddl/nn/operators/winograd.h"

namespace ddl {
namespace {

std::array<std::int64_t, 2> both(const Pair& pair) { return {pair.height, pair.width}; }

/// Maps with what surrounds them made explicit, where it is not the same on both sides: a piece of a map has padding at the whole one's edge.
struct Padded {
  at::Tensor maps;
  std::array<std::int64_t, 2> padding;  ///< that is still to come
};

Padded pad(const OperatorContext& c, const at::Tensor& given, double with) {
  const auto& a = c.layer.attributes;
  const auto &before = a.padding, &after = a.padding_after;
  const bool height = after.height >= 0 && after.height != before.height, width = after.width >= 0 && after.width != before.width;
  if (!height && !width) return {given, both(before)};
  const auto if_told = [](bool told, std::int64_t size) { return told ? size : 0; };
  return {at::constant_pad_nd(given, {if_told(width, before.width), if_told(width, after.width), if_told(height, before.height), if_told(height, after.height)}, with),
          {if_told(!height, before.height), if_told(!width, before.width)}};
}

/// How the window of a convolution slides, where what computes it may be ours.
std::optional<Windows> own_windows(const OperatorContext& c, const at::Tensor& maps, const std::array<std::int64_t, 2>& padding) {
  const auto& a = c.layer.attributes;
  const auto& weight = c.own.parameters[0];
  if (!takes_product(maps, weight, c.options) || !maps.is_contiguous(at::MemoryFormat::ChannelsLast) ||
      !weight.is_contiguous(at::MemoryFormat::ChannelsLast))
    return {};
  return windows_over(a, {maps.size(0), maps.size(1), maps.size(2), maps.size(3)}, {padding[0], padding[1]});
}

}  // namespace

at::Tensor convolve(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  const auto& weight = c.own.parameters[0];
  const auto bias = c.own.parameters.size() > 1 ? c.own.parameters[1] : at::Tensor();
  const auto [maps, padding] = pad(c, narrowed(c.inputs[0], c.options), 0);
  if (const auto windows = own_windows(c, maps, padding)) {
    if (goes_by_tiles(a, *windows, weight.size(0))) return convolve_by_tiles(maps, weight, bias, c.own.sharing, *windows, c.rectifies);
    if (is_product(a, *windows, weight.size(0))) return multiply(maps, weight, bias, c.own.sharing, windows, c.rectifies);
  }
  auto made = takes_wide_convolution(maps, c.options) ? convolve_widely(maps, weight, bias, a, padding)
              : takes_groups_apart(maps, a, c.options) ? convolve_groups_apart(maps, weight, bias, a, padding)
                                                       : at::conv2d(maps, weight, bias, both(a.stride), padding, 1, a.groups);
  return c.rectifies ? at::relu_(made) : made;
}

at::Tensor normalise_batch(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  if (c.training && takes_batch_norm(c.layer, c.inputs[0], c.options)) return normalise_and({}, c.layer, c.own, c.inputs[0]);
  const bool of_batch = c.training && !c.layer.frozen;
  // Of one value a channel there is no variance, and ATen makes it one that is no number.
  const auto variance = of_batch && c.inputs[0].numel() == c.inputs[0].size(1) ? c.own.statistics[1].clone() : at::Tensor();
  auto out = at::batch_norm(c.inputs[0], c.own.parameters[0], c.own.parameters[1], c.own.statistics[0], c.own.statistics[1], of_batch, a.momentum, a.epsilon, false);
  // Backward's node holds on to what it was given, and would take this for a change to it.
  if (variance.defined()) c.own.statistics[1].variable_data().copy_(variance);
  return out;
}

at::Tensor normalise_layer(const OperatorContext& c) {
  return at::layer_norm(c.inputs[0], {c.layer.shape.back()}, c.own.parameters[0], c.own.parameters[1], c.layer.attributes.epsilon);
}

at::Tensor max_pool(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  const auto [maps, padding] = pad(c, c.inputs[0], -std::numeric_limits<double>::infinity());
  if (takes_max_pool(a, maps, c.options)) return most_of_windows(a, maps, {padding[0], padding[1]}, false);
  return at::max_pool2d(maps, both(a.kernel), both(a.stride), padding);
}

at::Tensor average_pool(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  const auto [maps, padding] = pad(c, c.inputs[0], 0);
  if (a.count_padding || maps.is_same(c.inputs[0])) return at::avg_pool2d(maps, both(a.kernel), both(a.stride), padding, false, a.count_padding);
  // Pixels that are none count neither above nor below.
  const auto ones = pad(c, at::ones_like(c.inputs[0]), 0).maps;
  const auto mean = [&](const at::Tensor& x) { return at::avg_pool2d(x, both(a.kernel), both(a.stride), padding, false, false); };
  return mean(maps).div(mean(ones));
}

at::Tensor adaptive_average_pool(const OperatorContext& c) {
  return at::adaptive_avg_pool2d(c.inputs[0], {c.layer.shape[1], c.layer.shape[2]});
}

}  // namespace ddl
