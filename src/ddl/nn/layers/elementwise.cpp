#include <utility>

#include "ddl/nn/graph_builder.h"

#include <fmt/format.h>

namespace ddl {

int GraphBuilder::flatten(const std::string& name, int from) {
  return append({name, LayerKind::flatten, {from}, {elements_of(shape(from))}}, {.view = true});
}

int GraphBuilder::add(const std::string& name, int a, int b) {
  if (shape(a) != shape(b))
    fail(name, fmt::format("adds samples of one shape; got {} and {}", to_string(shape(a)), to_string(shape(b))));
  Layer layer{name, LayerKind::add, {a, b}, shape(a)};
  layer.flops = elements_of(layer.shape);
  return append(std::move(layer), {.can_overwrite = true});
}

int GraphBuilder::concatenate(const std::string& name, const std::vector<int>& from) {
  Layer layer{name, LayerKind::concatenate, from, shape(from.at(0))};
  layer.shape[0] = 0;
  for (const int input : from) {
    auto rest = shape(input);
    layer.shape[0] += rest[0];
    rest[0] = layer.shape[0];
    if (rest != layer.shape)
      fail(name, fmt::format("joins samples that differ in their first dimension alone; got {} and {}", to_string(shape(from[0])), to_string(shape(input))));
  }
  return append(std::move(layer), {});
}

int GraphBuilder::scale(const std::string& name, int from, double factor) {
  Layer layer{name, LayerKind::scale, {from}, shape(from)};
  layer.attributes.factor = factor;
  layer.flops = elements_of(layer.shape);
  return append(std::move(layer), {});
}

int GraphBuilder::dropout(const std::string& name, int from, double rate) {
  if (!(rate >= 0 && rate < 1)) fail(name, fmt::format("drops a part; got a rate of {}, expected 0 to less than 1", rate));
  if (rate == 0) return from;
  Layer layer{name, LayerKind::dropout, {from}, shape(from)};
  layer.attributes.rate = rate;
  layer.flops = 2 * elements_of(layer.shape);
  // Its mask is drawn again in backward. In evaluation it passes its input on.
  return append(std::move(layer), {});
}

int GraphBuilder::wait(const std::string& name, int from, double milliseconds, double backward) {
  Layer layer{name, LayerKind::wait, {from}, shape(from)};
  layer.attributes.milliseconds = milliseconds;
  layer.attributes.factor = backward;
  return append(std::move(layer), {.view = true});
}

}  // namespace ddl
