#include "ddl/train/measure_layers.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/measure/clock.h"
#include "ddl/nn/model.h"
#include "ddl/nn/split/split.h"
#include "ddl/strategy/partition/crossing.h"
#include "ddl/strategy/partition/layer_sort.h"
#include "ddl/strategy/split_parts.h"
#include "ddl/train/autocast.h"
#include "ddl/train/begin_alone.h"
#include "ddl/train/core_clock.h"
#include "ddl/train/death_testing.h"
#include "ddl/train/job_network.h"
#include "ddl/train/plan_job.h"
#include "ddl/train/split_backward.h"
#include "ddl/train/value_types.h"

namespace ddl {
namespace {

constexpr int kRuns = 5;
constexpr Seconds kBudget{1};

/// What is computed, with what shapes and types: layers that say the same take as long.
std::string sort_of(const ModelGraph& graph, std::size_t number, const std::vector<bool>& learns, const std::vector<at::ScalarType>& types) {
  auto text = layer_sort(graph, number, learns);
  for (const int input : graph.layers[number].inputs) text += fmt::format(" {}", at::toString(types[at(input)]));
  return text;
}

/// One layer of a network, with values to compute on.
class Bench {
 public:
  Bench(const ModelGraph& graph, NetworkOptions options, Device& device, const std::string& precision, std::int64_t samples, int number, const std::vector<bool>& learns,
        const std::vector<at::ScalarType>& types)
      : device_(device), precision_(precision), number_(at(number)), network_(graph, with_layer(std::move(options), graph, number)), values_(graph.layers.size()) {
    for (const int input : graph.layers[number_].inputs) {
      auto shape = graph.layers[at(input)].shape;
      shape.insert(shape.begin(), is_per_batch(graph.layers[at(input)]) ? 1 : samples);
      const auto like = network_.tensor_options().dtype(types[at(input)]);
      // Words are some word that every vocabulary has; numbers are neither all alike nor denormal.
      auto value = types[at(input)] == at::kLong ? at::full(shape, SampleShape::kEnd, like)
                                                 : at::linspace(-1, 1, elements_of(shape), network_.tensor_options()).to(like.dtype()).reshape(shape);
      if (value.dim() == 4) value = value.contiguous(network_.memory_format());
      given_.emplace_back(at(input), value.detach().requires_grad_(learns[at(input)]));
    }
    for (std::int64_t i = 0; i < samples; ++i) input_.samples.push_back(i);
  }

  /// Seconds forward and backward.
  std::pair<double, double> run() {
    const c10::AutoGradMode on(true);
    const auto [forward, edge, gradient] = begin();
    if (!edge.is_valid()) return {forward, 0};
    const auto middle = now();
    torch::autograd::Engine::get_default_engine().execute({edge}, {gradient}, false, false, true);
    device_.synchronize();
    const double backward = seconds(now() - middle);
    forget();
    return {forward, backward};
  }

  /// Seconds of the two parts of backward; those for which it had a core where one thread computes.
  std::pair<double, double> run_split() {
    const bool core = device_.is_host() && at::get_num_threads() == 1;
    const c10::AutoGradMode on(true);
    const auto [forward, edge, gradient] = begin();
    if (!edge.is_valid()) return {0, 0};
    std::vector<at::Tensor> given;
    for (const auto& [place, value] : given_)
      if (value.requires_grad()) given.push_back(value);
    const auto begin = time_of(core);
    auto late = backward_input({edge}, {gradient}, given);
    device_.synchronize();
    const auto middle = time_of(core);
    backward_weight(std::move(late));
    device_.synchronize();
    const auto end = time_of(core);
    forget();
    return {seconds(middle - begin), seconds(end - middle)};
  }

 private:
  struct Begun {
    double forward;
    torch::autograd::Edge edge;
    at::Tensor gradient;
  };

  /// Forward, and where a gradient then comes in; nowhere where nothing learns.
  Begun begin() {
    // A layer may write over its input.
    for (const auto& [place, value] : given_) values_[place] = value.clone();
    device_.synchronize();
    const auto begin = now();
    at::Tensor out;
    {
      const Autocast autocast(network_.tensor_options().device().type(), precision_);
      out = network_.forward_layer(number_, values_, input_, true);
    }
    device_.synchronize();
    const double forward = seconds(now() - begin);
    for (const auto& [place, value] : given_) values_[place].reset();
    if (!out.requires_grad()) return {forward, {}, {}};
    const auto edge = torch::autograd::impl::gradient_edge(out);
    auto gradient = at::ones_like(out).detach();
    out.reset();
    device_.synchronize();
    return {forward, edge, std::move(gradient)};
  }

  void forget() {
    for (auto& parameter : network_.parameters()) parameter.mutable_grad().reset();
    for (const auto& [place, value] : given_) value.mutable_grad().reset();
  }

  static NetworkOptions with_layer(NetworkOptions options, const ModelGraph& graph, int number) {
    options.layers.assign(graph.layers.size(), false);
    options.layers[at(number)] = true;
    return options;
  }

  Device& device_;
  std::string precision_;
  std::size_t number_;
  Network network_;
  std::vector<std::pair<std::size_t, at::Tensor>> given_;
  std::vector<at::Tensor> values_;
  NetworkInput input_;
};

/// Layers by their sort.
struct Sorted {
  Sorted(const ModelGraph& graph, const NetworkOptions& options, const std::string& precision) {
    for (const auto& layer : graph.layers)
      if (layer.kind == LayerKind::script)
        throw Error(Code::unsupported, fmt::format("[measure] unsupported: layer '{}' of {} cannot be run by itself; expected a whole network of layers", layer.name, graph.name));
    learns = learning_layers(graph);
    types = value_types(graph, at::TensorOptions(options.type).device(options.device), precision);
    for (int number = 0; number < static_cast<int>(graph.layers.size()); ++number)
      if (graph.layers[at(number)].kind != LayerKind::input && graph.layers[at(number)].kind != LayerKind::exchange) sorts[sort_of(graph, at(number), learns, types)].push_back(number);
  }
  std::vector<bool> learns;
  std::vector<at::ScalarType> types;
  std::map<std::string, std::vector<int>> sorts;
};

bool is_product(LayerKind kind) { return kind == LayerKind::conv2d || kind == LayerKind::linear || kind == LayerKind::attention || kind == LayerKind::lstm; }

}  // namespace

void require_known_layers(const ModelGraph& graph, std::string_view who) {
  for (const auto& layer : graph.layers)
    if (layer.kind == LayerKind::script) throw Error(Code::unsupported, fmt::format("[{}] unsupported: {} is one file; got layer '{}', expected a network of layers", who, graph.name, layer.name));
}

LayerSeconds measure_layers(const ModelGraph& graph, const NetworkOptions& options, Device& device, const std::string& precision, std::int64_t samples, Seconds budget) {
  const auto begin = now();
  const Sorted sorted(graph, options, precision);
  const auto& [learns, types, sorts] = sorted;
  LayerSeconds found{std::vector<double>(graph.layers.size()), std::vector<double>(graph.layers.size()), samples, static_cast<int>(sorts.size())};
  const double share = budget.value / static_cast<double>(std::max<std::size_t>(1, sorts.size()));
  for (const auto& [sort, numbers] : sorts) {
    const auto from = now();
    Bench bench(graph, options, device, precision, samples, numbers.front(), learns, types);
    bench.run();
    std::vector<double> forward, backward;
    do {
      const auto [there, back] = bench.run();
      forward.push_back(there);
      backward.push_back(back);
    } while (forward.size() < kRuns && seconds(now() - from) < share);
    for (const int number : numbers) {
      found.forward[at(number)] = median(forward);
      found.backward[at(number)] = median(backward);
    }
  }
  found.took = seconds(now() - begin);
  return found;
}

std::vector<double> backward_input_shares(const ModelGraph& graph, const NetworkOptions& options, Device& device, const std::string& precision, std::int64_t samples, Seconds budget) {
  const Sorted sorted(graph, options, precision);
  const auto work_of = [&](int number) { return layer_work(graph, at(number), sorted.learns); };
  const auto divides = [&](int number) { return is_product(graph.layers[at(number)].kind) && work_of(number).learning_input && work_of(number).trains; };
  std::size_t products = 0;
  for (const auto& [sort, numbers] : sorted.sorts) products += divides(numbers.front()) ? 1 : 0;
  std::vector<double> shares(graph.layers.size());
  for (const auto& [sort, numbers] : sorted.sorts) {
    double share = work_of(numbers.front()).learning_input ? 1 : 0;
    if (divides(numbers.front())) {
      const auto from = now();
      Bench bench(graph, options, device, precision, samples, numbers.front(), sorted.learns, sorted.types);
      bench.run_split();
      // The least of each is what nothing disturbed.
      double input = std::numeric_limits<double>::infinity(), weight = input;
      for (int run = 0; run < 2 || (run < kRuns && seconds(now() - from) < budget.value / static_cast<double>(products)); ++run) {
        const auto [first, second] = bench.run_split();
        input = std::min(input, first);
        weight = std::min(weight, second);
      }
      share = input + weight > 0 ? input / (input + weight) : 1;
    }
    for (const int number : numbers) shares[at(number)] = share;
  }
  return shares;
}

bool cuts_by_time(const Job& job) {
  const auto& options = job.strategy.options;
  const auto several = [&](const char* axis) { return options.contains(axis) && options.at(axis) != "1"; };
  // What parts of split layers take is not measured.
  const bool has_stages = job.strategy.name == "pipeline" || job.strategy.name == "model" || (job.strategy.name == "hybrid" && several("pipeline") && !several("tensor"));
  if (!has_stages || is_script(job.model.name)) return false;
  const auto balance = options.find("balance");
  const bool by_time = balance == options.end() || balance->second == "time" || balance->second == "pipedream";
  return by_time && !options.contains("stages") && (job.workers.size() > 1 || options.contains("chunks"));
}

std::vector<double> shares_of_job(const Job& job, const SampleShape& shape, Seconds budget) {
  TestDeath(0).at("measure");
  begin_alone(job);
  const auto graph = make_model(job.model, shape);
  const auto device = make_device(job.workers.front().device, device_options(job));
  return backward_input_shares(graph, network_options(job, *device), *device, job.precision, job.batch, budget);
}

LayerSeconds measure_job(const Job& job, const SampleShape& shape) {
  TestDeath(0).at("measure");
  begin_alone(job);
  const auto graph = make_model(job.model, shape);
  const auto device = make_device(job.workers.front().device, device_options(job));
  return measure_layers(graph, network_options(job, *device), *device, job.precision, largest_pass(job, plan_job(job, graph)), kBudget);
}

PartSeconds measure_part(const Job& job, const SampleShape& shape, const std::vector<double>& forward, const std::vector<double>& backward, Seconds budget) {
  begin_alone(job);
  const auto graph = make_model(job.model, shape);
  const auto plan = plan_job(job, graph);
  if (plan.split.empty() || plan.shares() > 1)
    throw Error(Code::invalid_argument, fmt::format("[measure] what it leaves to a worker is no part of the network for the whole batch; got {} of {} workers, expected a strategy that splits layers alone, as tensor", to_string(job.strategy), job.workers.size()));
  PartSeconds found{graph_of(plan, graph, 0), {}, {}, {}};
  const auto device = make_device(job.workers.front().device, device_options(job));
  const auto options = network_options(job, *device);
  const auto samples = largest_pass(job, plan);
  const auto whole = measure_layers(graph, options, *device, job.precision, samples, {budget.value / 3});
  auto part = measure_layers(found.graph, options, *device, job.precision, samples, {budget.value / 3});
  found.input_shares = backward_input_shares(found.graph, options, *device, job.precision, samples, {budget.value / 3});
  const auto in_training = [&](const std::vector<double>& trained, const std::vector<double>& alone, std::vector<double> of) {
    double others = 0, others_alone = 0;
    for (std::size_t l = 0; l < graph.layers.size(); ++l)
      if (!is_product(graph.layers[l].kind)) {
        others += trained.at(l);
        others_alone += alone[l];
      }
    for (std::size_t l = 0; l < of.size(); ++l) {
      const auto& layer = found.graph.layers[l];
      const bool has_like = is_product(layer.kind) && layer.origin >= 0 && graph.layers.at(at(layer.origin)).kind == layer.kind && alone[at(layer.origin)] > 0;
      if (has_like) of[l] *= trained.at(at(layer.origin)) / alone[at(layer.origin)];
      else if (others_alone > 0) of[l] *= others / others_alone;
    }
    return of;
  };
  found.forward = in_training(forward, whole.forward, std::move(part.forward));
  found.backward = in_training(backward, whole.backward, std::move(part.backward));
  return found;
}

}  // namespace ddl
