#include "ddl/train/stage_runner.h"

#include <algorithm>
#include <optional>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/core/error.h"
#include "ddl/train/autocast.h"
#include "ddl/train/objective.h"
#include "ddl/train/recompute.h"

namespace ddl {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// Running statistics are updated once a micro-batch, also where its forward runs twice.
class KeptStatistics {
 public:
  explicit KeptStatistics(Network& network) : network_(network) {
    for (const auto& buffer : network_.buffers()) values_.push_back(buffer.clone());
  }
  void put_back() {
    const c10::NoGradGuard guard;
    for (std::size_t i = 0; i < values_.size(); ++i) network_.buffers()[i].copy_(values_[i]);
  }

 private:
  Network& network_;
  std::vector<at::Tensor> values_;
};

/// Gradients that came of older weights are for the newest.
void take_gradients(const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to) {
  const c10::NoGradGuard guard;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].is_same(to[i]) || !from[i].grad().defined()) continue;
    auto& sum = to[i].mutable_grad();
    if (sum.defined())
      sum.add_(from[i].grad());
    else
      sum = from[i].grad();
    from[i].mutable_grad().reset();
  }
}

}  // namespace

StageRunner::StageRunner(Network& network, Device& device, const Recipe& recipe, const Plan& plan)
    : network_(network), device_(device), recipe_(recipe), asynchronous_(plan.asynchronous()), stages_(plan.stages), crossings_(crossings(network.graph(), plan.stages)) {
  for (const auto& stage : stages_) inputs_.push_back(inputs_of(network.graph(), stage));
  if (recipe.recompute && stages_.size() == 1) cuts_ = recompute_cuts(network);
}

ModelGraph StageRunner::prepare(ModelGraph graph, const std::vector<Stage>& stages) {
  for (const auto& stage : stages)
    for (int layer = stage.first; layer < stage.last; ++layer) {
      auto& own = graph.layers[at(layer)];
      if (own.in_place && own.inputs[0] < stage.first) own.in_place = false;
    }
  return graph;
}

void StageRunner::begin_step() {
  flights_.clear();
  losses_.clear();
  activations_.clear();
  gradients_.clear();
}

/// Messages are of values that lie densely, images as the network likes them.
at::Tensor StageRunner::dense(const at::Tensor& value) const {
  return value.contiguous(value.dim() == 4 ? network_.memory_format() : at::MemoryFormat::Contiguous);
}

int StageRunner::crossing_of(const Task& task) const {
  const auto found = std::find_if(crossings_.begin(), crossings_.end(), [&](const Crossing& crossing) { return crossing.from == task.stage && crossing.to == task.to_stage; });
  invariant(found != crossings_.end(), "messages are of values that cross");
  return static_cast<int>(found - crossings_.begin());
}

StageRunner::Flight StageRunner::begin(const Task& task, const Batch& batch, std::int64_t first, std::int64_t last) {
  Flight flight;
  flight.recompute = task.recompute;
  if (asynchronous_) flight.weights = network_.parameters();
  if (needs_batch(network_.graph(), stages_, task.stage)) {
    const auto before = device_.mark();
    // On the processor autograd reads the loader's memory; the batch is kept until the step is over.
    auto given = example(batch, recipe_.shape, first, last, network_, device_);
    copied_ = {before, device_.mark()};
    flight.input = std::move(given.input);
    flight.expected = std::move(given.expected);
  } else {
    flight.input.samples.assign(batch.indices.begin() + first, batch.indices.begin() + last);
    flight.input.step = batch.step;
  }
  for (std::size_t c = 0; c < crossings_.size(); ++c) {
    if (crossings_[c].to != task.stage) continue;
    const auto found = activations_.find({static_cast<int>(c), task.micro_batch});
    invariant(found != activations_.end(), "what a stage reads is there before it runs");
    for (std::size_t v = 0; v < found->second.size(); ++v)
      flight.given.emplace_back(Place{static_cast<int>(c), v}, found->second[v].detach().requires_grad_(crossings_[c].learns[v]));
    activations_.erase(found);
  }
  return flight;
}

std::vector<at::Tensor> StageRunner::run(int number, Flight& flight) {
  const auto& stage = stages_[at(number)];
  std::vector<at::Tensor> values(network_.graph().layers.size());
  for (const auto& [place, leaf] : flight.given) values[at(crossings_[at(place.crossing)].layers[place.value])] = leaf;
  const Autocast autocast(network_.tensor_options().device().type(), recipe_.precision);
  for (const int input : inputs_[at(number)])
    if (input < stage.first || input >= stage.last) values[at(input)] = network_.forward_layer(at(input), values, flight.input, true);
  network_.forward_layers(at(stage.first), at(stage.last), values, flight.input, true);
  return values;
}

/// What is left of a forward pass: the loss, and where gradients of what left will come in. The values themselves go to `outputs`.
void StageRunner::keep(int number, Flight& flight, const std::vector<at::Tensor>& values, Values* outputs, int micro_batch) {
  flight.left.clear();
  for (std::size_t c = 0; c < crossings_.size(); ++c) {
    if (crossings_[c].from != number) continue;
    std::vector<at::Tensor> leaving;
    for (std::size_t v = 0; v < crossings_[c].layers.size(); ++v) {
      const auto& value = values[at(crossings_[c].layers[v])];
      if (value.requires_grad()) flight.left.emplace_back(Place{static_cast<int>(c), v}, torch::autograd::impl::gradient_edge(value));
      leaving.push_back(value.detach());
    }
    if (outputs != nullptr) (*outputs)[{static_cast<int>(c), micro_batch}] = std::move(leaving);
  }
  if (number + 1 < static_cast<int>(stages_.size())) return;
  const auto auxiliary = network_.graph().auxiliary;
  flight.loss = loss_sum({values.back(), auxiliary < 0 ? at::Tensor() : values[at(auxiliary)]}, flight.expected, recipe_.label_smoothing);
}

void StageRunner::forward(const Task& task, const Batch& batch, std::int64_t first, std::int64_t last) {
  auto flight = begin(task, batch, first, last);
  if (!cuts_.empty()) {
    flight.loss = loss_sum(forward_with_recompute(network_, cuts_, flight.input, recipe_.precision), flight.expected, recipe_.label_smoothing);
  } else {
    // Where backward will run it again, too, with gradients wanted: some operators take other kernels, with other bits, where none are.
    keep(task.stage, flight, run(task.stage, flight), &activations_, task.micro_batch);
  }
  if (flight.loss.defined()) losses_[task.micro_batch] = flight.loss.detach();
  if (flight.recompute) {
    flight.left.clear();
    flight.loss.reset();
  }
  flights_[{task.stage, task.micro_batch}] = std::move(flight);
}

void StageRunner::run_again(int stage, Flight& flight) {
  for (auto& [place, leaf] : flight.given) leaf = leaf.detach().requires_grad_(leaf.requires_grad());
  keep(stage, flight, run(stage, flight), nullptr, 0);
}

at::Tensor StageRunner::loss(const Task& task) const {
  const auto found = losses_.find(task.micro_batch);
  return task.stage + 1 < static_cast<int>(stages_.size()) || found == losses_.end() ? at::Tensor() : found->second;
}

void StageRunner::backward(const Task& task, double scale) {
  const auto found = flights_.find({task.stage, task.micro_batch});
  if (found == flights_.end()) return;  // no samples
  auto flight = std::move(found->second);
  flights_.erase(found);
  const auto newest = asynchronous_ ? network_.parameters() : std::vector<at::Tensor>{};
  network_.use(flight.weights);
  // Statistics are put back once backward is over: batch norm's holds on to them.
  std::optional<KeptStatistics> statistics;
  if (flight.recompute) {
    statistics.emplace(network_);
    run_again(task.stage, flight);
  }
  torch::autograd::edge_list roots;
  torch::autograd::variable_list weights;
  if (flight.loss.defined()) {
    roots.push_back(torch::autograd::impl::gradient_edge(flight.loss));
    weights.push_back(at::full({}, scale, flight.loss.options().requires_grad(false)));
    flight.loss.reset();
  }
  for (auto& [place, edge] : flight.left) {
    const auto gradient = gradients_.find({place.crossing, task.micro_batch});
    invariant(gradient != gradients_.end(), "gradients of what left a stage are there before it goes backward");
    roots.push_back(std::move(edge));
    weights.push_back(std::move(gradient->second[place.value]));
  }
  for (std::size_t c = 0; c < crossings_.size(); ++c)
    if (crossings_[c].from == task.stage) gradients_.erase({static_cast<int>(c), task.micro_batch});
  flight.left.clear();
  if (!roots.empty()) torch::autograd::Engine::get_default_engine().execute(roots, weights, false, false, true);
  if (statistics) statistics->put_back();
  network_.use(newest);
  take_gradients(flight.weights, newest);
  for (auto& [place, leaf] : flight.given) {
    auto& of_crossing = gradients_[{place.crossing, task.micro_batch}];
    of_crossing.resize(crossings_[at(place.crossing)].layers.size());
    if (!crossings_[at(place.crossing)].learns[place.value]) continue;
    auto& gradient = of_crossing[place.value];
    gradient = std::move(leaf.mutable_grad());
    if (!gradient.defined()) gradient = at::zeros_like(leaf);
  }
}

std::vector<at::Tensor> StageRunner::leaving(const Task& task) {
  auto& from = task.cargo == Cargo::activations ? activations_ : gradients_;
  const auto found = from.find({crossing_of(task), task.micro_batch});
  if (found == from.end()) return {};  // no samples
  std::vector<at::Tensor> messages;
  for (const auto& value : found->second)
    if (value.defined()) messages.push_back(dense(value));
  from.erase(found);
  return messages;
}

std::vector<at::Tensor> StageRunner::arriving(const Task& task, std::int64_t samples) {
  const int number = crossing_of(task);
  const auto& crossing = crossings_[at(number)];
  auto& values = (task.cargo == Cargo::activations ? activations_ : gradients_)[{number, task.micro_batch}];
  values.resize(crossing.layers.size());
  std::vector<at::Tensor> messages;
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (task.cargo == Cargo::activation_gradients && !crossing.learns[v]) continue;
    auto shape = network_.graph().layers[at(crossing.layers[v])].shape;
    shape.insert(shape.begin(), samples);
    const auto format = shape.size() == 4 ? network_.memory_format() : at::MemoryFormat::Contiguous;
    values[v] = at::empty(shape, network_.tensor_options().memory_format(format));
    messages.push_back(values[v]);
  }
  return messages;
}

}  // namespace ddl
