#include "ddl/nn/network.h"

#include <unordered_map>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/nn/operators/batch_norm.h"
#include "ddl/nn/operators/dropout.h"
#include "ddl/nn/operators/max_pool.h"
#include "ddl/nn/operators/operator.h"
#include "ddl/nn/recompute_cuts.h"
#include "ddl/nn/script.h"

namespace ddl {
namespace {

const at::Tensor& part(const NetworkInput& input, const Layer& layer, const std::string& network) {
  const auto part = layer.attributes.part;
  const auto& tensor = part == InputPart::images ? input.images : part == InputPart::source ? input.source : input.target;
  if (!tensor.defined()) throw Error(Code::invalid_argument, fmt::format("[{}] nothing was given for its input '{}'", network, layer.name));
  // Sentences may be shorter than the longest.
  const bool words = part != InputPart::images;
  const auto got = tensor.dim() < 1 ? std::vector<std::int64_t>{} : tensor.sizes().slice(1).vec();
  if (words ? got.size() != 1 || got[0] > layer.shape[0] : got != layer.shape)
    throw Error(Code::invalid_argument, fmt::format("[{}] input '{}' does not fit; got samples of {}, expected {}{}", network, layer.name,
                                                    to_string(got), words ? "at most " : "", to_string(layer.shape)));
  return tensor;
}

}  // namespace

Network::Network(ModelGraph graph, const NetworkOptions& options)
    : graph_(std::move(graph)),
      options_(options),
      format_(options.kernels == Kernels::fast && channels_lie_last(graph_, options.dense_planes) ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous) {
  last_use_ = last_uses(graph_);
  adopt();
}

Network::~Network() = default;
Network::Network(Network&&) noexcept = default;

/// A piece is cut out of the whole that it is of: all parts together start as one worker does.
at::Tensor Network::make(const ParameterSpec& spec, std::uint64_t index) const {
  auto whole = spec;
  if (spec.piece) whole.shape = spec.piece->whole;
  auto values = at::empty(whole.shape, at::kFloat);
  initialise(whole, options_.seed, index, values.data_ptr<float>());
  if (spec.piece) {
    for (const auto& [dimension, ranges] : spec.piece->cuts) {
      std::vector<at::Tensor> some;
      for (const auto& [begin, end] : ranges) some.push_back(values.narrow(dimension, begin, end - begin));
      values = at::cat(some, dimension);
    }
  }
  values = values.to(options_.device, options_.type);
  return spec.shape.size() == 4 ? values.contiguous(format_) : values;
}

/// Of every layer, which of its parameters are here: all where the layer is, else those that a layer borrows that is.
std::vector<std::vector<bool>> Network::present() const {
  std::vector<std::vector<bool>> here;
  for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
    here.emplace_back(graph_.layers[i].parameters.size(), has(i));
    if (!has(i)) continue;
    for (const auto& [owner, number] : graph_.layers[i].borrowed) here[static_cast<std::size_t>(owner)][static_cast<std::size_t>(number)] = true;
  }
  return here;
}

void Network::adopt() {
  constexpr std::uint64_t kFrozen = std::uint64_t{1} << 32;  // what trains draws from below
  const auto here = present();
  // What a parameter starts with depends on its place in the whole network alone.
  std::uint64_t trainable = 0, fixed = 0;
  int statistics = 0;
  std::int64_t draws = 0;
  for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
    const auto& layer = graph_.layers[i];
    LayerTensors own;
    if (layer.kind == LayerKind::script) {
      script_ = std::make_unique<ScriptModule>(layer.attributes.file, options_.device, options_.type);
      for (const auto& [name, tensor] : script_->parameters(true)) {
        numbers_.push_back(static_cast<int>(trainable++));
        parameters_.push_back(tensor);
        own.parameters.push_back(tensor);
      }
      for (const auto& [name, tensor] : script_->parameters(false)) frozen_.push_back(tensor);
      for (const auto& tensor : script_->statistics()) {
        buffers_.push_back(tensor);
        buffer_numbers_.push_back(statistics++);
      }
    } else {
      for (std::size_t p = 0; p < layer.parameters.size(); ++p) {
        const auto& spec = layer.parameters[p];
        const auto index = spec.trainable ? trainable++ : kFrozen + fixed++;
        own.parameters.emplace_back();
        if (!here[i][p]) continue;
        own.parameters.back() = make(spec, index).requires_grad_(spec.trainable);
        (spec.trainable ? parameters_ : frozen_).push_back(own.parameters.back());
        if (spec.trainable) numbers_.push_back(static_cast<int>(index));
      }
    }
    if (has(i)) {
      for (const auto& [owner, number] : layer.borrowed)
        own.parameters.push_back(tensors_[static_cast<std::size_t>(owner)].parameters[static_cast<std::size_t>(number)]);
      for (const auto& spec : layer.statistics) {
        own.statistics.push_back(make(spec, 0));
        if (layer.frozen) continue;
        buffers_.push_back(own.statistics.back());
        buffer_numbers_.push_back(statistics++);
      }
      for (const auto& spec : layer.constants) own.constants.push_back(make(spec, 0));
    }
    if (!has(i) && !layer.frozen) statistics += static_cast<int>(layer.statistics.size());
    if (has(i) && layer.kind == LayerKind::dropout) own.draws = draws++;
    tensors_.push_back(std::move(own));
  }
  const auto sharing = sharing_of_layers(graph_, options_.layers);
  for (std::size_t i = 0; i < sharing.size(); ++i) tensors_[i].sharing = sharing[i];
}

void Network::use(const std::vector<at::Tensor>& parameters) {
  if (parameters.empty() || parameters[0].is_same(parameters_[0])) return;
  invariant(parameters.size() == parameters_.size(), "as many parameters as there are");
  std::unordered_map<at::TensorImpl*, std::size_t> places;
  for (std::size_t i = 0; i < parameters_.size(); ++i) places[parameters_[i].unsafeGetTensorImpl()] = i;
  for (auto& layer : tensors_)
    for (auto& tensor : layer.parameters)
      if (const auto found = tensor.defined() ? places.find(tensor.unsafeGetTensorImpl()) : places.end(); found != places.end()) tensor = parameters[found->second];
  parameters_ = parameters;
}

std::vector<std::string> Network::parameter_names() const {
  std::vector<std::string> names;
  const auto specs = graph_.parameter_specs();
  for (const int number : numbers_) names.push_back(specs[static_cast<std::size_t>(number)].name);
  return names;
}

std::vector<at::Tensor> Network::parameters_of(std::size_t layer) const {
  std::vector<at::Tensor> some;
  for (const auto& parameter : tensors_[layer].parameters)
    if (parameter.defined() && parameter.requires_grad()) some.push_back(parameter);
  return some;
}

at::Tensor Network::draws(const std::vector<std::int64_t>& samples, std::int64_t step) const {
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i].draws >= 0) rows.push_back(at::tensor(dropout_keys(graph_.layers[i], static_cast<int>(i), samples, step, options_.seed), at::kLong));
  return rows.empty() ? at::Tensor() : at::stack(rows);
}

NetworkOutput Network::forward(const NetworkInput& input, bool training) {
  std::vector<at::Tensor> values(graph_.layers.size());
  forward_layers(0, values.size(), values, input, training);
  return {values.back(), graph_.auxiliary < 0 ? at::Tensor() : values[static_cast<std::size_t>(graph_.auxiliary)]};
}

void Network::forward_layers(std::size_t first, std::size_t last, std::vector<at::Tensor>& values, const NetworkInput& input, bool training) {
  for (std::size_t i = first; i < last;) {
    if (graph_.layers[i].auxiliary && !training)
      ++i;
    else
      i = forward_next(i, last, values, input, training);
  }
}

std::size_t Network::forward_next(std::size_t layer, std::size_t last, std::vector<at::Tensor>& values, const NetworkInput& input, bool training) {
  const auto& layers = graph_.layers;
  const auto first_input = [&]() -> const at::Tensor& { return values[static_cast<std::size_t>(layers[layer].inputs[0])]; };
  auto next = layer + 1;
  if (training && replay_ == nullptr && layers[layer].kind == LayerKind::batch_norm2d && takes_batch_norm(layers[layer], first_input(), options_)) {
    const auto chain = normalise_chain(layers, last_use_, layer, last, values);
    next = layer + chain.layers;
    values[next - 1] = normalise_and(chain, layers[layer], tensors_[layer], first_input());
  } else if (replay_ == nullptr && next < last && rectifies_for_pool(graph_, last_use_, layer) && takes_max_pool(layers[next].attributes, first_input(), options_)) {
    const auto& a = layers[next].attributes;
    values[next] = most_of_windows(a, first_input(), a.padding, true);
    ++next;
  } else if (replay_ == nullptr && options_.kernels == Kernels::fast && next < last && rectifies_at_once(graph_, last_use_, layer)) {
    values[next] = run_operator(layer, values, input, training, nullptr, true);
    ++next;
  } else {
    values[layer] = forward_layer(layer, values, input, training);
  }
  for (auto done = layer; done < next; ++done)
    for (const int from : layers[done].inputs)
      if (last_use_[static_cast<std::size_t>(from)] == done) values[static_cast<std::size_t>(from)].reset();
  return next;
}

at::Tensor Network::forward_layer(std::size_t number, const std::vector<at::Tensor>& values, const NetworkInput& input, bool training,
                                  Past* past) {
  if (replay_ != nullptr) return replay_->forward(number, values, input);
  return run_operator(number, values, input, training, past, false);
}

at::Tensor Network::run_operator(std::size_t number, const std::vector<at::Tensor>& values, const NetworkInput& input, bool training, Past* past, bool rectifies) {
  const auto& layer = graph_.layers[number];
  if (layer.kind == LayerKind::input) return part(input, layer, graph_.name);
  c10::SmallVector<at::Tensor, 4> inputs;
  for (const int from : layer.inputs) inputs.push_back(values[static_cast<std::size_t>(from)]);
  return operator_of(layer.kind)({layer, static_cast<int>(number), tensors_[number], inputs, input, training, options_, script_.get(), past, rectifies});
}

}  // namespace ddl
