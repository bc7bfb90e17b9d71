#include "ddl/predict/images/operators.h"

#include "ddl/core/error.h"

namespace ddl {
namespace {

using Kind = ImageOperator::Kind;

/// Winograd's algorithm pays from so many channels on.
constexpr std::int64_t kWinogradChannels = 16;

/// Whether cuDNN may use Winograd's algorithm for it: 3x3 of stride 1, with so many channels read as it pays from.
bool winograd(const Layer& layer, std::int64_t channels) {
  const auto& how = layer.attributes;
  return how.kernel == Pair(3) && how.stride == Pair(1) && how.groups == 1 && channels >= kWinogradChannels;
}

Kind kind_of(const ModelGraph& graph, const Layer& layer) {
  switch (layer.kind) {
    case LayerKind::conv2d: return winograd(layer, graph.layers[static_cast<std::size_t>(layer.inputs[0])].shape[0]) ? Kind::convolution_3x3 : Kind::convolution;
    case LayerKind::linear: return Kind::convolution;
    case LayerKind::batch_norm2d:
    case LayerKind::layer_norm: return Kind::norm;
    case LayerKind::relu:
    case LayerKind::relu6:
    case LayerKind::gelu:
    case LayerKind::tanh:
    case LayerKind::sigmoid:
    case LayerKind::add:
    case LayerKind::scale:
    case LayerKind::dropout: return Kind::elementwise;
    case LayerKind::max_pool2d:
    case LayerKind::average_pool2d:
    case LayerKind::adaptive_average_pool2d: return Kind::pool;
    case LayerKind::concatenate: return Kind::copy;
    default: throw Error(Code::unsupported, fmt::format("[predict] unsupported: tables of images have convolutional networks; {} has a layer '{}' of another kind", graph.name, layer.name));
  }
}

}  // namespace

ImageOperator image_operator(const ModelGraph& graph, const Layer& layer) {
  ImageOperator each{kind_of(graph, layer), 2 * static_cast<double>(layer.multiply_adds), 0, static_cast<double>(elements_of(layer.shape))};
  for (const int from : layer.inputs) each.read += static_cast<double>(elements_of(graph.layers[static_cast<std::size_t>(from)].shape));
  for (const auto& parameter : layer.parameters) each.parameters.push_back(static_cast<double>(parameter.elements()));
  return each;
}

ImageOperators image_operators(const ModelGraph& graph) {
  ImageOperators out;
  std::vector<bool> kept(graph.layers.size());  // by layer that made it: several may want the same value
  const auto keep = [&](int made) {
    const bool first = !kept[static_cast<std::size_t>(made)];
    kept[static_cast<std::size_t>(made)] = true;
    return first ? static_cast<double>(elements_of(graph.layers[static_cast<std::size_t>(made)].shape)) : 0;
  };
  for (std::size_t number = 0; number < graph.layers.size(); ++number) {
    const auto& layer = graph.layers[number];
    if (layer.kind == LayerKind::input || layer.kind == LayerKind::flatten || layer.auxiliary) continue;
    auto each = image_operator(graph, layer);
    each.kept = 0;
    if (each.kind == Kind::convolution || each.kind == Kind::convolution_3x3 || each.kind == Kind::norm || each.kind == Kind::pool)
      for (const int from : layer.inputs) each.kept += keep(from);
    if (layer.kind == LayerKind::max_pool2d) each.kept += kIndexElements * each.written;
    // What it made is what it was given, written over.
    if (layer.kind == LayerKind::relu || layer.kind == LayerKind::relu6) each.kept += keep(static_cast<int>(number));
    out.push_back(std::move(each));
  }
  return out;
}

ImageOperators operators_of(const SequentialNetwork& network) {
  ImageOperators out;
  for (const auto& layer : network) out.insert(out.end(), layer.operators.begin(), layer.operators.end());
  return out;
}

double parameters_of(const ImageOperators& operators) {
  double sum = 0;
  for (const auto& each : operators)
    for (const double tensor : each.parameters) sum += tensor;
  return sum;
}

double flops_of(const ImageOperators& operators) {
  double sum = 0;
  for (const auto& each : operators) sum += each.flops;
  return sum;
}

ImageOperator convolution(double from, double to, double kernel_pixels, double read_pixels, double written_pixels, bool winograd, bool bias) {
  ImageOperator out{winograd ? Kind::convolution_3x3 : Kind::convolution, 2 * from * to * kernel_pixels * written_pixels, from * read_pixels, to * written_pixels, {from * to * kernel_pixels}};
  if (bias) out.parameters.push_back(to);
  return out;
}

ImageOperator convolution(double from, double to, double kernel, double size, double before, bool bias) {
  if (before == 0) before = size;
  return convolution(from, to, kernel * kernel, before * before, size * size, kernel == 3 && before == size && from >= kWinogradChannels, bias);
}

ImageOperator norm(double elements, double channels) { return {Kind::norm, 0, elements, elements, channels > 0 ? std::vector{channels, channels} : std::vector<double>{}}; }
ImageOperator elementwise(double elements, double inputs) { return {Kind::elementwise, 0, inputs * elements, elements}; }
ImageOperator pooling(double read, double written, bool maximum) { return {Kind::pool, 0, read, written, {}, read + (maximum ? kIndexElements * written : 0)}; }
ImageOperator copying(double read, double written) { return {Kind::copy, 0, read, written}; }
ImageOperator linear(double from, double to) { return {Kind::convolution, 2 * from * to, from, to, {from * to, to}}; }

}  // namespace ddl
