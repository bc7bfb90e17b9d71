#include <utility>

#include "ddl/nn/graph_builder.h"

#include <fmt/format.h>

namespace ddl {

/// Height and width of what a window gives as it slides over maps.
std::vector<std::int64_t> GraphBuilder::slide(const std::string& name, int from, const Window& window) const {
  const auto& in = shape(from);
  const auto [kernel, stride, padding] = window;
  if (kernel.height < 1 || kernel.width < 1) fail(name, fmt::format("looks through a window of at least 1x1; got {}x{}", kernel.height, kernel.width));
  if (stride.height < 1 || stride.width < 1) fail(name, fmt::format("moves its window on by at least 1x1; got {}x{}", stride.height, stride.width));
  if (padding.height < 0 || padding.width < 0) fail(name, fmt::format("pads by at least 0x0; got {}x{}", padding.height, padding.width));
  if (in[1] + 2 * padding.height < kernel.height || in[2] + 2 * padding.width < kernel.width)
    fail(name, fmt::format("needs images of at least {}x{} before it; got {}x{}", kernel.height - 2 * padding.height,
                           kernel.width - 2 * padding.width, in[1], in[2]));
  return {(in[1] + 2 * padding.height - kernel.height) / stride.height + 1, (in[2] + 2 * padding.width - kernel.width) / stride.width + 1};
}

int GraphBuilder::conv2d(const std::string& name, int from, std::int64_t channels, Window window, const Convolution& how) {
  Layer layer{name, LayerKind::conv2d, {from}};
  require_rank(layer, 3);
  const auto before = shape(from)[0];
  if (how.groups < 1 || channels < 1 || before % how.groups != 0 || channels % how.groups != 0)
    fail(name, fmt::format("has {} groups of channels; got {} channels in and {} out, expected multiples of it", how.groups, before, channels));
  const auto size = slide(name, from, window);
  layer.attributes.kernel = window.kernel;
  layer.attributes.stride = window.stride;
  layer.attributes.padding = window.padding;
  layer.attributes.groups = how.groups;
  layer.shape = {channels, size[0], size[1]};
  const auto area = window.kernel.height * window.kernel.width;
  const auto fan_in = before / how.groups * area;
  layer.parameters.push_back({name + ".weight", {channels, before / how.groups, window.kernel.height, window.kernel.width}, how.weight(fan_in, channels * area)});
  if (how.bias) layer.parameters.push_back({name + ".bias", {channels}, how.zero_bias ? Initialiser::zeros() : Initialiser::uniform_fan_in(fan_in)});
  layer.multiply_adds = fan_in * elements_of(layer.shape);
  layer.flops = 2 * layer.multiply_adds + (how.bias ? elements_of(layer.shape) : 0);
  return append(std::move(layer), {.inputs = true});
}

}  // namespace ddl
