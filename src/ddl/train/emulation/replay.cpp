#include "ddl/train/emulation/replay.h"

#include <algorithm>

#include <c10/core/GradMode.h>
#include <c10/core/MemoryFormat.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/core/at.h"
#include "ddl/nn/gradient_edge.h"
#include "ddl/nn/operators/autograd_node.h"
#include "ddl/nn/split/split.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/strategy/stages.h"
#include "ddl/train/value_types.h"

namespace ddl {
namespace {

/// Whose weights have a gradient that is a product of its own, as split_backward.cpp takes operators apart.
bool is_product(const Layer& layer) {
  return layer.kind == LayerKind::conv2d || layer.kind == LayerKind::linear || layer.kind == LayerKind::attention || layer.kind == LayerKind::lstm;
}

std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& sizes, at::MemoryFormat format) {
  if (sizes.size() == 4 && format == at::MemoryFormat::ChannelsLast) return c10::get_channels_last_strides_2d(sizes);
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t d = sizes.size(); d-- > 0; step *= std::max<std::int64_t>(1, sizes[d])) strides[d] = step;
  return strides;
}

}  // namespace

struct Replay::LayerNode final : torch::autograd::Node {
  /// A gradient that it gives.
  struct Gradient {
    std::size_t layer;         ///< whose value it is of; of parameters, that which uses them
    at::Tensor like;           ///< a parameter; undefined for values
    std::vector<std::int64_t> sizes = {}, strides = {};
    at::ScalarType type = at::kFloat;
    bool given = true;         ///< false: another node gives it
  };
  LayerNode(Replay& replay, const LayerCost& cost, const char* called) : replay_(replay), cost_(cost), called_(called) {}

  void add(std::size_t layer, const at::Tensor& tensor, bool is_parameter, bool given) {
    add_next_edge(edge_of(tensor));
    gradients_.push_back({layer, is_parameter ? tensor : at::Tensor(), tensor.sizes().vec(), tensor.strides().vec(), tensor.scalar_type(), given});
  }
  std::string name() const override { return called_; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    bool input = false, weight = false;
    torch::autograd::variable_list found(gradients_.size());
    for (std::size_t i = 0; i < gradients_.size(); ++i) {
      if (!task_should_compute_output(i)) continue;
      const auto& wanted = gradients_[i];
      const bool of_parameter = wanted.like.defined();
      (of_parameter ? weight : input) = true;
      if (!wanted.given || (of_parameter && wanted.like.grad().defined())) continue;
      found[i] = replay_.zeros(of_parameter ? replay_.types_.size() : wanted.layer, wanted.sizes, wanted.strides, wanted.type);
    }
    replay_.charge((input ? cost_.backward_input : 0) + (weight ? cost_.backward_weight : 0));
    return found;
  }

 private:
  Replay& replay_;
  LayerCost cost_;
  const char* called_;
  std::vector<Gradient> gradients_;
};

Replay::Replay(Network& network, const Plan& plan, std::shared_ptr<const CostSource> source, int worker, double slow, const std::string& precision, WaitClock clock)
    : network_(network), source_(std::move(source)), worker_(worker), slow_(slow), waits_(std::move(clock)), types_(value_types(network.graph(), network.tensor_options(), precision)) {
  const auto& layers = network.graph().layers;
  stage_of_.assign(layers.size(), 0);
  travels_.assign(layers.size(), false);
  leaves_.assign(layers.size(), false);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (int layer = plan.stages[s].first; layer < plan.stages[s].last; ++layer) stage_of_[at(layer)] = static_cast<int>(s);
  for (const auto& crossing : crossings(network.graph(), plan.stages))
    for (const int layer : crossing.layers) travels_[at(layer)] = leaves_[at(layer)] = true;
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    if (layers[layer].kind == LayerKind::exchange) travels_[layer] = true;
  own_zeros_.resize(layers.size());
  read_.resize(layers.size());
  network_.replay_with(this);
}

Replay::~Replay() { network_.replay_with(nullptr); }

const LayerCost& Replay::cost(std::size_t layer, std::int64_t samples) {
  const auto [place, unknown] = costs_.try_emplace({layer, samples});
  if (unknown) place->second = layer == network_.graph().layers.size() ? source_->loss(worker_, network_.graph(), samples) : source_->layer(worker_, network_.graph(), layer, samples);
  return place->second;
}

at::Tensor Replay::zeros(std::size_t layer, at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  if (layer >= travels_.size() || !travels_[layer]) return zeros_.tensor(sizes, strides, type);
  if (!own_zeros_[layer]) own_zeros_[layer] = std::make_unique<ZeroMemory>();
  return own_zeros_[layer]->tensor(sizes, strides, type, true);
}

at::Tensor Replay::value_of(std::size_t number, std::int64_t samples) {
  const auto& layer = network_.graph().layers[number];
  auto sizes = layer.shape;
  sizes.insert(sizes.begin(), is_per_batch(layer) ? 1 : samples);
  return zeros(number, sizes, strides_of(sizes, network_.memory_format()), types_[number]);
}

bool Replay::is_first_reader(std::size_t of, const at::Tensor& value) {
  auto& read = read_[of];
  // A weak reference: nothing else gets that address.
  if (read && read->_unsafe_get_target() == value.unsafeGetTensorImpl()) return false;
  read.emplace(value.getIntrusivePtr());
  return true;
}

at::Tensor Replay::forward(std::size_t number, const std::vector<at::Tensor>& values, const NetworkInput& input) {
  const auto& layer = network_.graph().layers[number];
  const auto samples = static_cast<std::int64_t>(input.samples.size());
  auto value = value_of(number, samples);
  if (layer.kind == LayerKind::input) return value;
  const auto& takes = cost(number, samples);
  charge(takes.forward);
  if (!c10::GradMode::is_enabled()) return value;
  const auto parameters = network_.parameters_of(number);
  bool learns = !parameters.empty();
  for (const int from : layer.inputs) learns |= values[at(from)].requires_grad();
  if (!learns) return value;
  auto node = make_node<LayerNode>(*this, takes, is_product(layer) ? "ReplayedProduct" : "ReplayedLayer");
  for (const int from : layer.inputs) {
    const auto& given = values[at(from)];
    // What leaves the stage gets its gradient from where it went.
    const bool goes_back_from_elsewhere = leaves_[at(from)] && stage_of_[at(from)] == stage_of_[number];
    node->add(at(from), given, false, given.requires_grad() && !goes_back_from_elsewhere && is_first_reader(at(from), given));
  }
  // Own parameters come first, then those that it borrows.
  std::vector<const at::TensorImpl*> of_owner;
  for (const auto& borrowed : layer.borrowed)
    if (stage_of_[at(borrowed.layer)] == stage_of_[number])
      for (const auto& parameter : network_.parameters_of(at(borrowed.layer))) of_owner.push_back(parameter.unsafeGetTensorImpl());
  for (const auto& parameter : parameters)
    node->add(number, parameter, true, std::find(of_owner.begin(), of_owner.end(), parameter.unsafeGetTensorImpl()) == of_owner.end());
  torch::autograd::set_history(value, node);
  return value;
}

at::Tensor Replay::loss(const NetworkOutput& output, std::int64_t samples) {
  const auto& takes = cost(network_.graph().layers.size(), samples);
  charge(takes.forward);
  auto value = at::zeros({}, network_.tensor_options());
  if (!c10::GradMode::is_enabled() || !output.logits.requires_grad()) return value;
  auto node = make_node<LayerNode>(*this, LayerCost{0, takes.backward(), 0}, "ReplayedLoss");
  const auto last = network_.graph().layers.size() - 1;
  node->add(last, output.logits, false, is_first_reader(last, output.logits));
  if (output.auxiliary.defined()) {
    const auto auxiliary = at(network_.graph().auxiliary);
    node->add(auxiliary, output.auxiliary, false, is_first_reader(auxiliary, output.auxiliary));
  }
  torch::autograd::set_history(value, node);
  return value;
}

}  // namespace ddl
