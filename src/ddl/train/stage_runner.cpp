#include "ddl/train/stage_runner.h"

#include <algorithm>

#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/nn/split/split.h"
#include "ddl/train/autocast.h"
#include "ddl/train/emulation/replay.h"
#include "ddl/train/recompute.h"
#include "ddl/train/value_types.h"

namespace ddl {
namespace {

/// While it lives running statistics may change: then they are as they were. Of what is run again, they were updated the first time.
class KeptStatistics {
 public:
  KeptStatistics(Network& network, bool keeps) : network_(network) {
    if (!keeps) return;
    for (const auto& buffer : network_.buffers()) values_.push_back(buffer.clone());
  }
  KeptStatistics(const KeptStatistics&) = delete;
  KeptStatistics& operator=(const KeptStatistics&) = delete;
  /// Not as a new version of them: autograd has kept them of other micro-batches, although training does not read them.
  ~KeptStatistics() {
    const c10::NoGradGuard guard;
    for (std::size_t i = 0; i < values_.size(); ++i) network_.buffers()[i].variable_data().copy_(values_[i]);
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

StageRunner::StageRunner(Network& network, Device& device, const Recipe& recipe, const Plan& plan, Replay* replay)
    : network_(network), device_(device), recipe_(recipe), replay_(replay), asynchronous_(plan.asynchronous()), stages_(plan.stages), crossings_(crossings(network.graph(), plan.stages)),
      leads_(plan.stages.size()) {
  for (const auto& stage : stages_) inputs_.push_back(inputs_of(network.graph(), stage));
  if (recipe.recompute && stages_.size() == 1) cuts_ = recompute_cuts(network.graph());
  if (!crossings_.empty()) types_ = value_types(network.graph(), network.tensor_options(), recipe.precision);
  if (plan.deferred_statistics && replay == nullptr) deferred_.emplace(network);
  if (!plan.split.empty()) find_leads(plan);
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
  late_.clear();
  losses_.clear();
  activations_.clear();
  gradients_.clear();
  exchanged_.clear();
  exchange_gradients_.clear();
  if (deferred_) deferred_->begin_step();
}

void StageRunner::end_step() {
  if (deferred_) deferred_->end_step();
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
  if (replay_ == nullptr && needs_batch(network_.graph(), stages_, task.stage)) {
    const auto before = device_.mark();
    // On the processor autograd reads the loader's memory; the batch is kept until the step is over.
    auto given = example(batch, recipe_.shape, first, last, network_, device_);
    copied_ = {before, device_.mark()};
    flight.input = std::move(given.input);
    flight.expected = std::move(given.expected);
  } else {
    flight.input.samples.assign(batch.indices.begin() + first, batch.indices.begin() + last);
    flight.input.step = batch.step;
    copied_ = {device_.mark(), device_.mark()};
  }
  for (std::size_t c = 0; c < crossings_.size(); ++c) {
    if (crossings_[c].to != task.stage) continue;
    const auto found = activations_.find({static_cast<int>(c), task.micro_batch});
    invariant(found != activations_.end(), "what a stage reads is there before it runs");
    for (std::size_t v = 0; v < found->second.size(); ++v) {
      const Place place{static_cast<int>(c), v};
      const auto& lead = leads_[at(task.stage)];
      const bool leads = lead.how != nullptr && lead.from.crossing == place.crossing && lead.from.value == v;
      if (leads && !communicates(lead.how->forward)) exchanged_[{task.stage, task.micro_batch}] = move_of(task.stage, true, found->second[v]).result();
      if (!leads || !lead.alone) flight.given.emplace_back(place, found->second[v].detach().requires_grad_(learns(task.stage, place)));
    }
    activations_.erase(found);
  }
  if (const auto made = exchanged_.find({task.stage, task.micro_batch}); made != exchanged_.end()) {
    flight.given.emplace_back(Place{kNone, 0}, made->second.detach().requires_grad_(learns(task.stage, {kNone, 0})));
    exchanged_.erase(made);
  }
  return flight;
}

std::vector<at::Tensor> StageRunner::run(int number, Flight& flight) {
  const auto& stage = stages_[at(number)];
  std::vector<at::Tensor> values(network_.graph().layers.size());
  for (const auto& [place, leaf] : flight.given) values[at(layer_of(number, place))] = leaf;
  const Autocast autocast(network_.tensor_options().device().type(), recipe_.precision);
  for (const int input : inputs_[at(number)])
    if (input < stage.first || input >= stage.last) values[at(input)] = network_.forward_layer(at(input), values, flight.input, true);
  const int own = leads_[at(number)].how == nullptr ? stage.first : stage.first + 1;
  if (own < stage.last) network_.forward_layers(at(own), at(stage.last), values, flight.input, true);
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
  flight.loss = loss_of({values.back(), auxiliary < 0 ? at::Tensor() : values[at(auxiliary)]}, flight);
}

at::Tensor StageRunner::loss_of(const NetworkOutput& output, const Flight& flight) {
  return replay_ != nullptr ? replay_->loss(output, static_cast<std::int64_t>(flight.input.samples.size())) : loss_sum(output, flight.expected, recipe_.label_smoothing, network_.kernels());
}

void StageRunner::forward(const Task& task, const Batch& batch, std::int64_t first, std::int64_t last) {
  advance(task, begin(task, batch, first, last), last - first);
}

void StageRunner::forward(const Task& task, Example given) {
  invariant(stages_.size() == 1, "samples that are on the device are of a network in one stage");
  Flight flight;
  flight.recompute = task.recompute;
  flight.input = std::move(given.input);
  flight.expected = std::move(given.expected);
  const auto samples = static_cast<std::int64_t>(flight.input.samples.size());
  advance(task, std::move(flight), samples);
}

void StageRunner::advance(const Task& task, Flight flight, std::int64_t samples) {
  if (!cuts_.empty()) {
    flight.loss = loss_of(forward_with_recompute(network_, cuts_, flight.input, recipe_.precision), flight);
  } else {
    // Where backward will run it again, too, with gradients wanted: some operators take other kernels, with other bits, where none are.
    keep(task.stage, flight, run(task.stage, flight), &activations_, task.micro_batch);
  }
  if (deferred_) deferred_->take(stages_[at(task.stage)].first, stages_[at(task.stage)].last, samples);
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

/// Where a backward pass begins, and with what.
LateGradients StageRunner::roots(const Task& task, Flight& flight, const Scale& scale) {
  LateGradients roots;
  if (flight.loss.defined()) {
    roots.edges.push_back(torch::autograd::impl::gradient_edge(flight.loss));
    const auto* const there = std::get_if<at::Tensor>(&scale);
    roots.gradients.push_back(there != nullptr ? there->to(flight.loss.scalar_type()) : at::full({}, std::get<double>(scale), flight.loss.options().requires_grad(false)));
    flight.loss.reset();
  }
  for (auto& [place, edge] : flight.left) {
    const auto gradient = gradients_.find({place.crossing, task.micro_batch});
    invariant(gradient != gradients_.end(), "gradients of what left a stage are there before it goes backward");
    roots.edges.push_back(std::move(edge));
    roots.gradients.push_back(std::move(gradient->second[place.value]));
  }
  for (std::size_t c = 0; c < crossings_.size(); ++c)
    if (crossings_[c].from == task.stage) gradients_.erase({static_cast<int>(c), task.micro_batch});
  flight.left.clear();
  return roots;
}

/// The gradients of what a stage was given are on their way.
void StageRunner::hand_back(const Task& task, Flight& flight) {
  for (auto& [place, leaf] : flight.given) {
    if (place.crossing == kNone) continue;
    auto& of_crossing = gradients_[{place.crossing, task.micro_batch}];
    of_crossing.resize(crossings_[at(place.crossing)].layers.size());
    if (!crossings_[at(place.crossing)].learns[place.value]) continue;
    auto& gradient = of_crossing[place.value];
    gradient = std::move(leaf.mutable_grad());
    if (!gradient.defined()) gradient = at::zeros_like(leaf);
  }
  const auto& lead = leads_[at(task.stage)];
  if (lead.how == nullptr || !learns(task.stage, lead.from)) return;
  for (auto& [place, leaf] : flight.given) {
    if (place.crossing != kNone) continue;
    auto gradient = std::move(leaf.mutable_grad());
    if (!gradient.defined()) gradient = at::zeros_like(leaf);
    if (communicates(lead.how->backward))
      exchange_gradients_[{task.stage, task.micro_batch}] = std::move(gradient);
    else
      take_back(task.stage, task.micro_batch, move_of(task.stage, false, std::move(gradient)).result());
  }
}

void StageRunner::backward(const Task& task, double scale) { go_backward(task, scale); }
void StageRunner::backward(const Task& task, const at::Tensor& scale) { go_backward(task, scale); }

void StageRunner::go_backward(const Task& task, const Scale& scale) {
  const auto found = flights_.find({task.stage, task.micro_batch});
  if (found == flights_.end()) return;  // no samples
  auto flight = std::move(found->second);
  flights_.erase(found);
  const auto newest = asynchronous_ ? network_.parameters() : std::vector<at::Tensor>{};
  network_.use(flight.weights);
  const KeptStatistics statistics(network_, flight.recompute && replay_ == nullptr);
  if (flight.recompute) run_again(task.stage, flight);
  {
    const auto from = roots(task, flight, scale);
    if (!from.edges.empty()) torch::autograd::Engine::get_default_engine().execute(from.edges, from.gradients, false, false, true);
  }
  network_.use(newest);
  take_gradients(flight.weights, newest);
  hand_back(task, flight);
}

void StageRunner::backward_input(const Task& task, double scale) {
  const auto found = flights_.find({task.stage, task.micro_batch});
  if (found == flights_.end()) return;
  std::vector<at::Tensor> given;
  // What is run again is run when it is wanted.
  if (std::none_of(found->second.given.begin(), found->second.given.end(), [](const auto& each) { return each.second.requires_grad(); })) return;
  auto flight = std::move(found->second);
  flights_.erase(found);
  const KeptStatistics statistics(network_, flight.recompute && replay_ == nullptr);
  if (flight.recompute) run_again(task.stage, flight);
  for (const auto& [place, leaf] : flight.given)
    if (leaf.requires_grad()) given.push_back(leaf);
  auto from = roots(task, flight, scale);
  late_[{task.stage, task.micro_batch}] = ddl::backward_input(std::move(from.edges), std::move(from.gradients), given);
  hand_back(task, flight);
}

void StageRunner::backward_weight(const Task& task, double scale) {
  const auto found = late_.find({task.stage, task.micro_batch});
  if (found == late_.end()) return backward(task, scale);
  auto late = std::move(found->second);
  late_.erase(found);
  ddl::backward_weight(std::move(late));
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
    shape.insert(shape.begin(), is_per_batch(network_.graph().layers[at(crossing.layers[v])]) ? 1 : samples);
    const auto format = shape.size() == 4 ? network_.memory_format() : at::MemoryFormat::Contiguous;
    values[v] = at::empty(shape, network_.tensor_options().dtype(types_[at(crossing.layers[v])]).memory_format(format));
    messages.push_back(values[v]);
  }
  return messages;
}

}  // namespace ddl
