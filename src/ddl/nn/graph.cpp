#include "ddl/nn/graph.h"

#include <numeric>
#include <utility>

#include "ddl/core/error.h"

namespace ddl {
namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

std::int64_t ParameterSpec::elements() const { return product(shape); }

std::int64_t ModelGraph::parameters() const {
  std::int64_t sum = 0;
  for (const auto& spec : parameter_specs()) sum += spec.elements();
  return sum;
}

std::int64_t ModelGraph::flops() const {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0},
                         [](std::int64_t sum, const Layer& layer) { return sum + layer.flops; });
}

std::int64_t ModelGraph::kept_elements() const {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0},
                         [](std::int64_t sum, const Layer& layer) { return sum + layer.kept_elements; });
}

std::vector<ParameterSpec> ModelGraph::parameter_specs() const {
  std::vector<ParameterSpec> all;
  for (const auto& layer : layers) all.insert(all.end(), layer.parameters.begin(), layer.parameters.end());
  return all;
}

GraphBuilder::GraphBuilder(std::string name, std::vector<std::int64_t> input_shape) {
  graph_.name = std::move(name);
  Layer input;
  input.name = "input";
  input.shape = std::move(input_shape);
  append(std::move(input));
}

int GraphBuilder::append(Layer layer) {
  graph_.layers.push_back(std::move(layer));
  return static_cast<int>(graph_.layers.size()) - 1;
}

Layer& GraphBuilder::require_rank(Layer& layer, std::size_t rank) {
  const auto& from = shape(layer.inputs.at(0));
  if (from.size() != rank)
    throw Error(Code::invalid_argument, fmt::format("[{}] layer '{}' takes samples of {} dimensions; got {}", graph_.name,
                                                    layer.name, rank, from.size()));
  return layer;
}

int GraphBuilder::conv2d(const std::string& name, int from, std::int64_t channels, Window window, ConvOptions options) {
  Layer layer{name, LayerKind::conv2d, {from}};
  require_rank(layer, 3);
  const auto& in = shape(from);
  const auto out = [&](std::int64_t size) { return (size + 2 * window.padding - window.kernel) / window.stride + 1; };
  if (in[1] + 2 * window.padding < window.kernel || in[2] + 2 * window.padding < window.kernel)
    throw Error(Code::invalid_argument, fmt::format("[{}] layer '{}' needs images of at least {}x{}; got {}x{}", graph_.name,
                                                    name, window.kernel - 2 * window.padding,
                                                    window.kernel - 2 * window.padding, in[1], in[2]));
  layer.kernel = window.kernel;
  layer.stride = window.stride;
  layer.padding = window.padding;
  layer.shape = {channels, out(in[1]), out(in[2])};
  const std::int64_t area = window.kernel * window.kernel;
  const std::int64_t fan_in = in[0] * area;
  const std::int64_t fan = options.initialiser == Initialiser::normal_fan_out ? channels * area : fan_in;
  layer.parameters.push_back({name + ".weight", {channels, in[0], window.kernel, window.kernel}, options.initialiser, fan});
  if (options.bias) layer.parameters.push_back({name + ".bias", {channels}, Initialiser::uniform_fan_in, fan_in});
  layer.flops = 2 * fan_in * product(layer.shape) + (options.bias ? product(layer.shape) : 0);
  layer.kept_elements = product(in);
  return append(std::move(layer));
}

int GraphBuilder::batch_norm2d(const std::string& name, int from) {
  Layer layer{name, LayerKind::batch_norm2d, {from}};
  require_rank(layer, 3).shape = shape(from);
  const std::int64_t channels = layer.shape[0];
  layer.parameters.push_back({name + ".weight", {channels}, Initialiser::ones, 0});
  layer.parameters.push_back({name + ".bias", {channels}, Initialiser::zeros, 0});
  // Two passes for the statistics, one multiply-add for the result.
  layer.flops = 5 * product(layer.shape);
  layer.kept_elements = product(layer.shape);
  return append(std::move(layer));
}

int GraphBuilder::relu(const std::string& name, int from) {
  Layer layer{name, LayerKind::relu, {from}, shape(from)};
  layer.flops = product(layer.shape);
  layer.kept_elements = product(layer.shape);
  return append(std::move(layer));
}

int GraphBuilder::max_pool2d(const std::string& name, int from, Window window) {
  Layer layer{name, LayerKind::max_pool2d, {from}};
  require_rank(layer, 3);
  const auto& in = shape(from);
  layer.kernel = window.kernel;
  layer.stride = window.stride;
  layer.padding = window.padding;
  const auto out = [&](std::int64_t size) { return (size + 2 * window.padding - window.kernel) / window.stride + 1; };
  layer.shape = {in[0], out(in[1]), out(in[2])};
  if (layer.shape[1] < 1 || layer.shape[2] < 1)
    throw Error(Code::invalid_argument, fmt::format("[{}] layer '{}' needs images of at least {}x{}; got {}x{}",
                                                    graph_.name, name, window.kernel, window.kernel, in[1], in[2]));
  layer.flops = product(layer.shape) * window.kernel * window.kernel;
  layer.kept_elements = 2 * product(layer.shape);  // int64 indices, counted in fp32 elements
  return append(std::move(layer));
}

int GraphBuilder::global_average_pool(const std::string& name, int from) {
  Layer layer{name, LayerKind::global_average_pool, {from}};
  require_rank(layer, 3);
  layer.shape = {shape(from)[0], 1, 1};
  layer.flops = product(shape(from));
  return append(std::move(layer));
}

int GraphBuilder::flatten(const std::string& name, int from) {
  return append({name, LayerKind::flatten, {from}, {product(shape(from))}});
}

int GraphBuilder::linear(const std::string& name, int from, std::int64_t features) {
  Layer layer{name, LayerKind::linear, {from}};
  require_rank(layer, 1);
  const std::int64_t in = shape(from)[0];
  layer.shape = {features};
  layer.parameters.push_back({name + ".weight", {features, in}, Initialiser::uniform_fan_in, in});
  layer.parameters.push_back({name + ".bias", {features}, Initialiser::uniform_fan_in, in});
  layer.flops = 2 * in * features + features;
  layer.kept_elements = in;
  return append(std::move(layer));
}

int GraphBuilder::add(const std::string& name, int a, int b) {
  if (shape(a) != shape(b))
    throw Error(Code::invalid_argument,
                fmt::format("[{}] layer '{}' adds samples of one shape; got {} and {} elements", graph_.name, name,
                            product(shape(a)), product(shape(b))));
  Layer layer{name, LayerKind::add, {a, b}, shape(a)};
  layer.flops = product(layer.shape);
  return append(std::move(layer));
}

int GraphBuilder::wait(const std::string& name, int from, double milliseconds) {
  Layer layer{name, LayerKind::wait, {from}, shape(from)};
  layer.milliseconds = milliseconds;
  return append(std::move(layer));
}

ModelGraph GraphBuilder::finish() && { return std::move(graph_); }

}  // namespace ddl
