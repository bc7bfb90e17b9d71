#include <utility>

#include "ddl/nn/graph_builder.h"

#include <fmt/format.h>

namespace ddl {

int GraphBuilder::max_pool2d(const std::string& name, int from, Window window) {
  Layer layer{name, LayerKind::max_pool2d, {from}};
  require_rank(layer, 3);
  // Beyond that a window would see nothing but padding, which has no largest value.
  if (2 * window.padding.height > window.kernel.height || 2 * window.padding.width > window.kernel.width)
    fail(name, fmt::format("pads by at most half of its window of {}x{}; got {}x{}", window.kernel.height, window.kernel.width, window.padding.height, window.padding.width));
  const auto size = slide(name, from, window);
  layer.attributes.kernel = window.kernel;
  layer.attributes.stride = window.stride;
  layer.attributes.padding = window.padding;
  layer.shape = {shape(from)[0], size[0], size[1]};
  const auto elements = elements_of(layer.shape);
  layer.flops = elements * window.kernel.height * window.kernel.width;
  return append(std::move(layer), {.inputs = true, .extra = 2 * elements});  // int64 indices, counted in fp32 elements
}

int GraphBuilder::average_pool2d(const std::string& name, int from, Window window, bool count_padding) {
  Layer layer{name, LayerKind::average_pool2d, {from}};
  require_rank(layer, 3);
  const auto size = slide(name, from, window);
  layer.attributes.kernel = window.kernel;
  layer.attributes.stride = window.stride;
  layer.attributes.padding = window.padding;
  layer.attributes.count_padding = count_padding;
  layer.shape = {shape(from)[0], size[0], size[1]};
  layer.flops = elements_of(layer.shape) * window.kernel.height * window.kernel.width;
  return append(std::move(layer), {.inputs = true});
}

int GraphBuilder::adaptive_average_pool2d(const std::string& name, int from, Pair size) {
  Layer layer{name, LayerKind::adaptive_average_pool2d, {from}};
  require_rank(layer, 3);
  if (size.height < 1 || size.width < 1) fail(name, fmt::format("gives maps of at least 1x1; got {}x{}", size.height, size.width));
  layer.shape = {shape(from)[0], size.height, size.width};
  layer.flops = elements_of(shape(from));
  // To one pixel it is a mean, whose backward needs sizes alone.
  return append(std::move(layer), {.inputs = size != Pair(1)});
}

}  // namespace ddl
