#include "ddl/predict/datasheet/machine_source.h"

#include <algorithm>
#include <map>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/compression_passes.h"
#include "ddl/predict/datasheet/gpu.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/datasheet/processor_shares.h"
#include "ddl/predict/datasheet/wires.h"
#include "ddl/predict/images/roofline.h"
#include "ddl/strategy/partition/crossing.h"

namespace ddl {
namespace {

/// Of a compressed all-reduce: about a kernel for each pass. Judgement.
constexpr double kCompressionKernels = 10;

/// What passes over memory reads the gradient too on its way back.
constexpr double kPassBack = 1.5;

double elements(const std::vector<std::int64_t>& shape) {
  double count = 1;
  for (const auto size : shape) count *= static_cast<double>(size);
  return count;
}

const ParameterSpec& lender(const ModelGraph& graph, const Borrowed& tied) { return graph.layers[static_cast<std::size_t>(tied.layer)].parameters[static_cast<std::size_t>(tied.parameter)]; }

/// What a layer multiplies by, its own or another's; null where it has none.
const ParameterSpec* weight_of(const ModelGraph& graph, const Layer& layer) {
  if (!layer.parameters.empty() && layer.borrowed.empty()) return &layer.parameters[0];
  return layer.borrowed.empty() ? nullptr : &lender(graph, layer.borrowed[0]);
}

/// At the clock that it sustains.
Gpu sustained(Gpu gpu, const GpuKernels& kernels) {
  gpu.peak *= kernels.derate(gpu);
  return gpu;
}

class DatasheetMachine final : public CostSource {
 public:
  DatasheetMachine(const Json& machine, const std::string& precision, int optimizer_tensors, int per_node, bool judges_gradient)
      : gpu_(gpu_of(machine, precision)), kernels_(gpu_kernels(find_stack("nvidia"), library_of(machine))), is_gpu_(machine["device"].value("kind", "gpu") == "gpu"),
        images_(sustained(gpu_, kernels_), image_kernels(find_stack("nvidia"), gpu_), kernels_.launch, precision), launch_(term_or(machine, "device.operator_us", kernels_.launch * 1e6) * 1e-6), bytes_(value_bytes(precision)), passes_of_update_(3 + 2 * optimizer_tensors + (judges_gradient ? 1 : 0)) {
    gpu_.value_bytes = bytes_;
    wire_ = gpu_.network * gpu_.wired / wires_of_node(gpu_.wires);
    if (per_node > 0) gpu_.per_node = per_node;
    if (is_gpu_ && machine["device"].contains("efficiency"))
      throw Error(Code::invalid_argument, fmt::format("[machine] device.efficiency is of processors; got it of {}, whose kernels' shares of the peak are machines/stacks/nvidia.json's, expected none, or kind cpu", machine.value("name", "a GPU")));
    if (is_gpu_) return;
    processor_ = ProcessorShares::read(machine);
    launch_ = processor_.call();
  }

  int place(int worker) const override { return worker / gpu_.per_node; }
  std::int64_t parameter_bytes() const override { return bytes_ == 8 ? 8 : 4; }

  LayerCost layer(int /*worker*/, const ModelGraph& graph, std::size_t number, std::int64_t samples) const override {
    const auto& layer = graph.layers[number];
    if (layer.kind == LayerKind::input || layer.exchange || layer.keeps.view) return {};
    double in = 0, weights = 0;
    for (const int input : layer.inputs) in += elements(graph.layers[static_cast<std::size_t>(input)].shape);
    for (const auto& parameter : layer.parameters) weights += static_cast<double>(parameter.elements());
    for (const auto& tied : layer.borrowed) weights += static_cast<double>(lender(graph, tied).elements());
    const auto n = static_cast<double>(samples);
    const double moved = bytes_ * (n * (in + elements(layer.shape)) + weights);
    if (is_gpu_ && layer.kind == LayerKind::batch_norm2d && !layer.frozen && learning(graph)[number]) {
      const auto norm = image_operator(graph, layer);
      return {n * images_.forward(norm) + launch(), n * images_.backward(norm) + launch(), 0};
    }
    const auto& learns = learning(graph);
    const bool learnt = !layer.frozen && learns[number];
    if (layer.multiply_adds == 0) {
      // Of a table of vectors a few are read, but all have a gradient; on processors it is made in the output layer's, if that has the same table, which is not told apart here.
      const double read = layer.kind == LayerKind::embedding ? moved - bytes_ * weights : moved;
      return {read / memory() + launch(), learnt ? kPassBack * moved / memory() + launch() : 0, 0};
    }
    auto cost = product(graph, layer, n);
    for (double* part : {&cost.forward, &cost.backward_input, &cost.backward_weight})
      if (*part > 0) *part = std::max(*part, moved / memory()) + launch();
    if (!learnt) return {cost.forward, 0, 0};
    // Nobody wants that of an image.
    const bool wanted = std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int input) { return learns[static_cast<std::size_t>(input)]; });
    // Attention's own is, of its projections' weights, and an LSTM's of the places before.
    if (!wanted && layer.kind != LayerKind::attention && layer.kind != LayerKind::lstm) cost.backward_input = 0;
    if (weights == 0) cost.backward_weight = 0;
    return cost;
  }

  TaskCost collective(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const override {
    const auto ranks = static_cast<double>(workers.size());
    if (workers.size() < 2) return {};
    std::map<int, int> nodes;
    for (const int worker : workers) ++nodes[worker / gpu_.per_node];
    const double size = static_cast<double>(bytes);
    // An all-reduce is both halves; the others move half as much.
    const double part = goal == Goal::all_reduce ? 1 : goal == Goal::barrier ? 0 : 0.5;
    if (nodes.size() == 1) return in_node(part, size, workers, resources);
    // A ring goes in and out of every node, so that the one with fewest devices, and fewest wires, sets its pace.
    int fewest = gpu_.per_node;
    for (const auto& [node, count] : nodes) fewest = std::min(fewest, count);
    // Where each worker speaks for itself all of them say so.
    const double say = resources.each_alone ? ranks : 1;
    TaskCost cost{part * kernels_.all_reduce_across(gpu_, size, ranks, fewest, static_cast<double>(nodes.size())), {}};
    for (const auto& [node, count] : nodes)
      for (const char* way : {kOut, kIn}) cost.demands.push_back({resources.resource(wire(way, node)), std::min(1.0, static_cast<double>(count) / gpu_.per_node) / say});
    return cost;
  }

  TaskCost message(std::int64_t bytes, int from, int to, StepCosts& resources) const override {
    const double size = static_cast<double>(bytes);
    const int here = from / gpu_.per_node, there = to / gpu_.per_node;
    // Who sends or receives alone has a whole wire, if nobody else is at it. Where one stands for several at both ends, as many send at once: each has its part of the wires. Both ends say what of them is taken: half of it each, but where they stand for as many.
    const bool sends_alone = stands_alone(from, resources), receives_alone = stands_alone(to, resources), alone = sends_alone || receives_alone;
    const double say = alone ? 0.5 : 1.0;
    // Whose ways are one device's.
    std::vector<Demand> ways;
    if (sends_alone) ways.push_back({resources.resource(fmt::format("out of device {}", from)), say});
    if (receives_alone) ways.push_back({resources.resource(fmt::format("into device {}", to)), say});
    if (here == there) {
      // Half of what each has towards all others; both ends say so.
      ways.push_back({resources.resource(link(kOut, from)), 0.25});
      ways.push_back({resources.resource(link(kIn, to)), 0.25});
      return {launch() + size / (0.5 * gpu_.bus), ways};
    }
    const double all = gpu_.network * gpu_.per_node, rate = alone ? std::min(std::max(wire_, gpu_.network), all) : gpu_.network, share = say * rate / all;
    ways.push_back({resources.resource(wire(kOut, here)), share});
    ways.push_back({resources.resource(wire(kIn, there)), share});
    return {kernels_.library.message_latency(gpu_) + size / (rate * kernels_.library.network_bandwidth()), ways};
  }

  double update(int /*worker*/, std::int64_t bytes) const override { return static_cast<double>(bytes) * passes_of_update_ / (gpu_.bandwidth * kernels_.update_bandwidth); }
  double copy(int /*worker*/, std::int64_t bytes) const override { return 2 * static_cast<double>(bytes) / memory(); }

  TaskCost compressing(int /*worker*/, const std::string& compression, std::int64_t bytes, int /*ranks*/, StepCosts&) const override {
    return {compression_passes(compression) * static_cast<double>(bytes) / memory() + kCompressionKernels * launch()};
  }

  LayerCost loss(int /*worker*/, const ModelGraph& graph, std::int64_t samples) const override {
    const double logits = bytes_ * static_cast<double>(samples) * elements(graph.layers.back().shape) / memory();
    return {3 * logits, 2 * logits, 0};
  }

  double load(int, std::int64_t) const override { return 0; }
  TaskCost loader(int, std::int64_t, StepCosts&) const override { return {}; }
  TaskCost harness(int, double, StepCosts&) const override { return {}; }

 private:
  /// Actors are in the order of workers.
  static bool stands_alone(int worker, const StepCosts& resources) {
    if (resources.each_alone) return true;
    int until = 0;
    for (const auto& actor : resources.actors)
      if (worker < (until += std::max(1, actor.count))) return actor.count < 2;
    return true;
  }
  /// Of the network that was last asked for.
  const std::vector<bool>& learning(const ModelGraph& graph) const {
    if (learns_.first != &graph || learns_.second.size() != graph.layers.size()) learns_ = {&graph, learning_layers(graph)};
    return learns_.second;
  }
  double launch() const { return launch_; }
  /// Both ways at once: bandwidths of profiles are each way.
  static constexpr const char* kOut = "out of";
  static constexpr const char* kIn = "into";
  static std::string wire(const char* way, int node) { return fmt::format("wires {} node {}", way, node); }
  static std::string link(const char* way, int device) { return fmt::format("links {} device {}", way, device); }

  /// What devices have towards others of their node each of their collectives, and messages, takes for as long as bytes are on their way; while calls start nobody does.
  TaskCost in_node(double part, double size, const std::vector<int>& workers, StepCosts& resources) const {
    const auto ranks = static_cast<double>(workers.size());
    const double whole = kernels_.all_reduce_in_node(gpu_, size, ranks), moves = kernels_.all_reduce_in_node(gpu_, 2 * size, ranks) - whole;
    TaskCost cost{part * whole, {}};
    if (cost.seconds <= 0 || moves <= 0) return cost;
    const double share = std::min(1.0, moves / whole) / (resources.each_alone ? ranks : 1);
    for (const int worker : workers)
      for (const char* way : {kOut, kIn}) cost.demands.push_back({resources.resource(link(way, worker)), share});
    return cost;
  }
  double memory() const { return gpu_.bandwidth * (is_gpu_ ? kernels_.pass_bandwidth : processor_.memory()); }

  /// A layer's products: that of forward, and the two, each of as many operations, that make the gradients of its input and its weights.
  LayerCost product(const ModelGraph& graph, const Layer& layer, double samples) const {
    const auto alike = [](double each) { return LayerCost{each, each, each}; };
    if (!is_gpu_) {
      const double at_peak = 2 * samples * static_cast<double>(layer.multiply_adds) / gpu_.peak;
      return alike(at_peak / processor_.compute(at_peak, layer.kind == LayerKind::conv2d));
    }
    if (layer.kind == LayerKind::attention && layer.parameters.size() >= 3) return attention(graph, layer, samples);
    if (layer.kind == LayerKind::lstm) return recurrent(layer, samples);
    if (const auto* own = weight_of(graph, layer); layer.kind == LayerKind::linear && own != nullptr && own->shape.size() == 2) {
      const auto& weight = own->shape;
      return linear(samples * elements(layer.shape) / static_cast<double>(weight[0]), static_cast<double>(weight[0]), static_cast<double>(weight[1]));
    }
    // cuDNN has a way of its own for each shape; what tells is how much is multiplied, or, of few channels a group, how much is moved.
    if (layer.kind == LayerKind::conv2d) return alike(samples * images_.forward(image_operator(graph, layer)));
    return alike(2 * samples * static_cast<double>(layer.multiply_adds) / (gpu_.peak * kernels_.gemm_efficiency * kernels_.batched_gemm_efficiency * kernels_.derate(gpu_)));
  }

  double gemm(double rows, double columns, double inner) const { return kernels_.gemm(gpu_, rows, columns, inner, 1, 0); }

  /// Of [rows, inner] with a weight [columns, inner].
  LayerCost linear(double rows, double columns, double inner) const { return {gemm(rows, columns, inner), gemm(rows, inner, columns), gemm(columns, inner, rows)}; }

  /// Its projections are large products; between them a fused kernel goes over queries by places seen and keeps no scores: 4 n d operations each, of causal ones half, and backward, which makes the
  /// scores again, 2.5 times (Dao 2023, "FlashAttention-2").
  LayerCost attention(const ModelGraph& graph, const Layer& layer, double samples) const {
    const auto& queries = graph.layers[static_cast<std::size_t>(layer.inputs[0])].shape;
    const double length = static_cast<double>(queries[0]), features = static_cast<double>(queries[1]), each = static_cast<double>(layer.parameters[0].shape[0]) / 3;  // 3 `each`: queries, keys and values of the heads that are here
    const double seen = static_cast<double>(graph.layers[static_cast<std::size_t>(layer.inputs[1])].shape[0]);
    const bool itself = layer.inputs[0] == layer.inputs[1];
    auto sum = linear(samples * length, each * (itself ? 3 : 1), features);
    if (!itself) sum += linear(samples * seen, 2 * each, features);
    sum += linear(samples * length, features, each);
    // With a mask of its own, or of a piece of the places, nothing is skipped.
    const bool skips = layer.attributes.causal && itself && layer.inputs.size() < 3;
    const double core = 4 * samples * length * seen * each * (skips ? 0.5 : 1) / (gpu_.peak * kernels_.flash_efficiency * kernels_.derate(gpu_));
    sum += {core + 2 * launch(), 2.5 * core + 2 * launch(), 2 * launch()};
    return sum;
  }

  /// Of an LSTM: what words have a part in is one product of all places, as are the gradients of both weights; what the state has a part in is a small one for each place, which waits for the one before, and a kernel for its gates
  /// (Appleyard et al. 2016, "Optimizing Performance of Recurrent Neural Networks on GPUs").
  LayerCost recurrent(const Layer& layer, double samples) const {
    const auto& from_words = layer.parameters.at(0).shape;
    const double gates = static_cast<double>(from_words[0]), features = static_cast<double>(from_words[1]), hidden = gates / 4;
    const double places = static_cast<double>(layer.multiply_adds) / (gates * (features + hidden)), all = samples * places;
    auto sum = linear(all, gates, features);
    sum += {places * (gemm(samples, gates, hidden) + 2 * launch()), places * (gemm(samples, hidden, gates) + 2 * launch()), gemm(gates, hidden, all) + launch()};
    return sum;
  }

  Gpu gpu_;
  GpuKernels kernels_;
  bool is_gpu_;
  double wire_ = 0;  ///< bytes/s each way of one of a node's wires
  ProcessorShares processor_;
  ImageRoofline images_;  ///< convolutions and batch norms
  double launch_;         ///< s, of a kernel, or of a call where processors compute
  double bytes_;
  double passes_of_update_;
  mutable std::pair<const ModelGraph*, std::vector<bool>> learns_{};
};

}  // namespace

bool convolves(const ModelGraph& graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.kind == LayerKind::conv2d; });
}

double context_bytes(const Json& machine) {
  return machine.contains("device") && machine["device"].value("kind", "gpu") == "gpu" ? term(find_stack("nvidia"), "images.memory_terms.context_bytes") : 0;
}

std::unique_ptr<CostSource> datasheet_source(const Json& machine, const std::string& precision, int optimizer_tensors, int devices_per_node, bool judges_gradient) {
  return std::make_unique<DatasheetMachine>(machine, precision, optimizer_tensors, devices_per_node, judges_gradient);
}

}  // namespace ddl
