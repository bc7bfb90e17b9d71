#include "ddl/strategy/partition/layer_sort.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "ddl/core/at.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

const ParameterSpec& spec_of(const ModelGraph& graph, const Borrowed& from) { return graph.layers[at(from.layer)].parameters[at(from.parameter)]; }

/// In the order of LayerKind.
constexpr std::array<std::string_view, 29> kNames{"input",     "conv2d",         "batch_norm2d", "layer_norm", "relu",      "relu6",     "gelu",   "tanh", "sigmoid", "max_pool2d",
                                                  "average_pool2d", "adaptive_average_pool2d", "flatten", "linear", "add", "concatenate", "scale", "dropout", "embedding", "positions",
                                                  "attention", "lstm",           "wait",         "script",     "exchange",  "bias",      "batch_moments", "merge_moments", "batch_normalise"};
static_assert(kNames.size() == static_cast<std::size_t>(LayerKind::batch_normalise) + 1);

/// What a kind needs beyond shapes.
std::string options_of(const Layer& layer) {
  const auto& a = layer.attributes;
  std::vector<std::string> options;
  const auto pair = [&](const char* called, const Pair& value) { options.push_back(fmt::format("{}={}x{}", called, value.height, value.width)); };
  if (a.kernel != Pair(0)) {
    pair("kernel", a.kernel);
    if (a.stride != Pair(1)) pair("stride", a.stride);
    if (a.padding != Pair(0)) pair("padding", a.padding);
    if (a.padding_after != Pair(-1)) pair("padding_after", a.padding_after);
  }
  if (a.groups != 1) options.push_back(fmt::format("groups={}", a.groups));
  if (!a.count_padding) options.emplace_back("without_padding");
  if (layer.kind == LayerKind::attention) options.push_back(fmt::format("heads={}", a.heads));
  if (a.causal) options.emplace_back("causal");
  if (a.rate != 0) options.push_back(fmt::format("rate={}", a.rate));
  if (a.factor != 1) options.push_back(fmt::format("factor={}", a.factor));
  if (a.milliseconds != 0) options.push_back(fmt::format("ms={}", a.milliseconds));
  if (layer.frozen) options.emplace_back("frozen");
  if (layer.in_place) options.emplace_back("in_place");
  return options.empty() ? "" : "[" + join(options, ",") + "]";
}

/// Whether the layer works on maps whose channels lie last, where kernels are fast: another thing to compute than maps that lie one after the other.
bool has_channels_last(const ModelGraph& graph, const Layer& layer) {
  const auto is_map = [](const Layer& each) { return each.shape.size() == 3; };
  return (is_map(layer) || std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int input) { return is_map(graph.layers[at(input)]); })) && has_wide_convolutions(graph);
}

}  // namespace

std::string_view name(LayerKind kind) { return kNames.at(static_cast<std::size_t>(kind)); }

std::string layer_sort(const ModelGraph& graph, std::size_t number, const std::vector<bool>& learns) {
  const auto& layer = graph.layers[number];
  std::vector<std::string> inputs;
  for (const int input : layer.inputs) inputs.push_back(to_string(graph.layers[at(input)].shape) + (learns[at(input)] ? " learning" : ""));
  auto text = fmt::format("{}{} ({}) -> {}", name(layer.kind), options_of(layer), join(inputs, ", "), to_string(layer.shape));
  const auto parameter = [&](const char* whose, const ParameterSpec& spec) { text += fmt::format(" {} {}{}", whose, to_string(spec.shape), spec.trainable ? "" : " fixed"); };
  for (const auto& spec : layer.parameters) parameter("own", spec);
  for (const auto& from : layer.borrowed) parameter("tied", spec_of(graph, from));
  if (has_channels_last(graph, layer)) text += " channels last";
  return text;
}

std::string loss_sort(const ModelGraph& graph) {
  auto text = fmt::format("loss ({})", to_string(graph.layers.back().shape));
  if (graph.auxiliary >= 0) text += fmt::format(" and ({})", to_string(graph.layers[at(graph.auxiliary)].shape));
  return text;
}

std::string layer_family(const ModelGraph& graph, std::size_t number) {
  const auto& layer = graph.layers[number];
  std::string family(name(layer.kind));
  const char* const lies = has_channels_last(graph, layer) ? " channels last" : "";
  if (layer.kind != LayerKind::conv2d) return family + lies;
  if (layer.attributes.groups > 1) return family + (layer.attributes.groups == layer.shape.front() ? " depthwise" : " grouped") + lies;
  const auto& kernel = layer.attributes.kernel;
  return fmt::format("{} {}x{}{}", family, kernel.height, kernel.width, lies);
}

LayerWork layer_work(const ModelGraph& graph, std::size_t number, const std::vector<bool>& learns) {
  const auto& layer = graph.layers[number];
  LayerWork work{static_cast<double>(layer.flops), static_cast<double>(elements_of(layer.shape))};
  for (const int input : layer.inputs) {
    work.elements += static_cast<double>(elements_of(graph.layers[at(input)].shape));
    work.learning_input = work.learning_input || learns[at(input)];
  }
  const auto parameter = [&](const ParameterSpec& spec) {
    work.parameters += static_cast<double>(spec.elements());
    work.trains = work.trains || spec.trainable;
  };
  for (const auto& spec : layer.parameters) parameter(spec);
  for (const auto& from : layer.borrowed) parameter(spec_of(graph, from));
  return work;
}

LayerWork loss_work(const ModelGraph& graph) {
  LayerWork work{0, static_cast<double>(elements_of(graph.layers.back().shape)), 0, true, false};
  if (graph.auxiliary >= 0) work.elements += static_cast<double>(elements_of(graph.layers[at(graph.auxiliary)].shape));
  // An exponential and a few sums for each.
  work.flops = 4 * work.elements;
  return work;
}

}  // namespace ddl
