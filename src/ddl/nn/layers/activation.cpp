#include <utility>

#include "ddl/nn/graph_builder.h"

namespace ddl {

int GraphBuilder::activation(const std::string& name, int from, LayerKind kind, Keeps keeps, std::int64_t flops) {
  Layer layer{name, kind, {from}, shape(from)};
  layer.flops = flops * elements_of(layer.shape);
  return append(std::move(layer), keeps);
}

int GraphBuilder::relu(const std::string& name, int from) {
  return activation(name, from, LayerKind::relu, {.output = true, .can_overwrite = true}, 1);
}

int GraphBuilder::relu6(const std::string& name, int from) {
  return activation(name, from, LayerKind::relu6, {.output = true, .can_overwrite = true}, 2);
}

// An exponential or error function counts as ten operations, about what a vector library spends on one.
int GraphBuilder::gelu(const std::string& name, int from) { return activation(name, from, LayerKind::gelu, {.inputs = true}, 14); }
int GraphBuilder::tanh(const std::string& name, int from) { return activation(name, from, LayerKind::tanh, {.output = true}, 10); }
int GraphBuilder::sigmoid(const std::string& name, int from) { return activation(name, from, LayerKind::sigmoid, {.output = true}, 10); }

}  // namespace ddl
