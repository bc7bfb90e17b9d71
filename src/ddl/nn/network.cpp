#include "ddl/nn/network.h"

#include <ctime>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/measure/clock.h"

namespace ddl {
namespace {

/// Sleeps most of the time and spins the rest: a sleeping thread is woken 50–100 us late.
void wait_milliseconds(double milliseconds) {
  constexpr Nanoseconds kSpin = 300'000;
  const Nanoseconds until = now() + static_cast<Nanoseconds>(milliseconds * 1e6);
  const Nanoseconds wake = until - kSpin;
  if (wake > now()) {
    const timespec time{wake / 1'000'000'000, wake % 1'000'000'000};
    ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
  }
  while (now() < until) {
  }
}

bool has_convolutions(const ModelGraph& graph) {
  for (const auto& layer : graph.layers)
    if (layer.kind == LayerKind::conv2d && layer.shape[0] >= 32) return true;
  return false;
}

}  // namespace

Network::Network(ModelGraph graph, const NetworkOptions& options)
    : graph_(std::move(graph)),
      // oneDNN works on blocks of channels: with the few of a LeNet, reordering costs more than it saves.
      format_(options.kernels == Kernels::fast && has_convolutions(graph_) ? at::MemoryFormat::ChannelsLast
                                                                          : at::MemoryFormat::Contiguous) {
  last_use_.resize(graph_.layers.size());
  for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
    const auto& layer = graph_.layers[i];
    first_parameter_.push_back(parameters_.size());
    first_buffer_.push_back(buffers_.size());
    for (const int input : layer.inputs) last_use_[static_cast<std::size_t>(input)] = i;
    for (const auto& spec : layer.parameters) {
      auto values = at::empty(spec.shape, at::kFloat);
      initialise(spec, options.seed, parameters_.size(), values.data_ptr<float>());
      auto parameter = values.to(options.device, options.type);
      if (spec.shape.size() == 4) parameter = parameter.contiguous(format_);
      parameters_.push_back(parameter.requires_grad_(true));
    }
    if (layer.kind == LayerKind::batch_norm2d) {
      const auto like = at::TensorOptions().dtype(options.type).device(options.device);
      buffers_.push_back(at::zeros({layer.shape[0]}, like));
      buffers_.push_back(at::ones({layer.shape[0]}, like));
    }
  }
}

std::vector<std::string> Network::parameter_names() const {
  std::vector<std::string> names;
  for (const auto& spec : graph_.parameter_specs()) names.push_back(spec.name);
  return names;
}

NetworkOutput Network::forward(const NetworkInput& input, bool training) {
  std::vector<at::Tensor> values(graph_.layers.size());
  forward_layers(0, graph_.layers.size(), values, input, training);
  return {values.back(), {}};
}

void Network::forward_layers(std::size_t first, std::size_t last, std::vector<at::Tensor>& values, const NetworkInput& input, bool training) {
  for (std::size_t i = first; i < last; ++i) {
    const auto& layer = graph_.layers[i];
    values[i] = layer.kind == LayerKind::input ? input.images : run(layer, i, values, training);
    for (const int from : layer.inputs)
      if (last_use_[static_cast<std::size_t>(from)] == i) values[static_cast<std::size_t>(from)].reset();
  }
}

std::vector<at::Tensor> Network::parameters_of(std::size_t layer) const {
  const auto first = parameters_.begin() + static_cast<std::ptrdiff_t>(first_parameter_[layer]);
  return {first, first + static_cast<std::ptrdiff_t>(graph_.layers[layer].parameters.size())};
}

// An input nobody reads again may be overwritten, as long as its producer keeps its input, not its output.
bool Network::overwrites(std::size_t number) const {
  const auto& layer = graph_.layers[number];
  if (layer.kind != LayerKind::relu && layer.kind != LayerKind::add) return false;
  const auto from = static_cast<std::size_t>(layer.inputs[0]);
  return last_use_[from] == number && (layer.kind == LayerKind::relu ? from != 0 : layer.inputs[0] != layer.inputs[1]);
}

at::Tensor Network::run(const Layer& layer, std::size_t number, std::vector<at::Tensor>& values, bool training) {
  auto& from = values[static_cast<std::size_t>(layer.inputs.at(0))];
  const auto parameter = [&](std::size_t k) { return parameters_[first_parameter_[number] + k]; };
  switch (layer.kind) {
    case LayerKind::conv2d:
      return at::conv2d(from, parameter(0), layer.parameters.size() > 1 ? parameter(1) : at::Tensor(),
                        {layer.stride, layer.stride}, {layer.padding, layer.padding});
    case LayerKind::batch_norm2d: {
      const std::size_t buffer = first_buffer_[number];
      return at::batch_norm(from, parameter(0), parameter(1), buffers_[buffer], buffers_[buffer + 1], training, 0.1,
                            1e-5, false);
    }
    case LayerKind::relu:
      return overwrites(number) ? at::relu_(from) : at::relu(from);
    case LayerKind::max_pool2d:
      return at::max_pool2d(from, {layer.kernel, layer.kernel}, {layer.stride, layer.stride},
                            {layer.padding, layer.padding});
    case LayerKind::global_average_pool:
      return at::adaptive_avg_pool2d(from, {1, 1});
    case LayerKind::flatten:
      return from.flatten(1);
    case LayerKind::linear:
      return at::linear(from, parameter(0), parameter(1));
    case LayerKind::add: {
      const auto& other = values[static_cast<std::size_t>(layer.inputs[1])];
      return overwrites(number) ? from.add_(other) : from.add(other);
    }
    case LayerKind::wait:
      wait_milliseconds(layer.milliseconds);
      return from;
    case LayerKind::input:
      break;
  }
  throw Error(Code::unsupported, fmt::format("[{}] layer '{}' cannot run", graph_.name, layer.name));
}

}  // namespace ddl
