#include "ddl/predict/datasheet/machine_source.h"

#include <algorithm>
#include <map>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/compression_passes.h"
#include "ddl/predict/datasheet/gpu.h"
#include "ddl/predict/datasheet/library.h"
#include "ddl/predict/images/roofline.h"
#include "ddl/strategy/partition/crossing.h"

namespace ddl {
namespace {

/// Of a compressed all-reduce: about a kernel for each pass. Judgement.
constexpr double kCompressionKernels = 10;

double elements(const std::vector<std::int64_t>& shape) {
  double count = 1;
  for (const auto size : shape) count *= static_cast<double>(size);
  return count;
}

/// At the clock that it sustains.
Gpu sustained(Gpu gpu, const GpuKernels& kernels) {
  gpu.peak *= kernels.derate(gpu);
  return gpu;
}

class DatasheetMachine final : public CostSource {
 public:
  DatasheetMachine(const Json& machine, const std::string& precision, int optimizer_tensors, int per_node)
      : gpu_(gpu_of(machine, precision)), kernels_(gpu_kernels(find_stack("nvidia"), library_of(machine))), is_gpu_(machine["device"].value("kind", "gpu") == "gpu"),
        images_(sustained(gpu_, kernels_), image_kernels(find_stack("nvidia")), kernels_.launch, precision), bytes_(value_bytes(precision)), passes_of_update_(3 + 2 * optimizer_tensors) {
    if (per_node > 0) gpu_.per_node = per_node;
    if (is_gpu_) return;
    cpu_compute_ = term(machine, "device.efficiency.compute");
    cpu_memory_ = term(machine, "device.efficiency.memory");
    cpu_call_ = term(machine, "device.efficiency.call_us") * 1e-6;
  }

  LayerCost layer(int /*worker*/, const ModelGraph& graph, std::size_t number, std::int64_t samples) const override {
    const auto& layer = graph.layers[number];
    if (layer.kind == LayerKind::input || layer.exchange) return {};
    double in = 0, weights = 0;
    for (const int input : layer.inputs) in += elements(graph.layers[static_cast<std::size_t>(input)].shape);
    for (const auto& parameter : layer.parameters) weights += static_cast<double>(parameter.elements());
    const auto n = static_cast<double>(samples);
    const double moved = bytes_ * (n * (in + elements(layer.shape)) + weights);
    if (is_gpu_ && layer.kind == LayerKind::batch_norm2d && !layer.frozen && learning(graph)[number]) {
      const auto norm = image_operator(graph, layer);
      return {n * images_.forward(norm) + launch(), n * images_.backward(norm) + launch(), 0};
    }
    const bool multiplies = layer.multiply_adds > 0;
    const double forward = std::max(multiplies ? product(graph, layer, n) : 0, moved / memory()) + launch();
    const auto& learns = learning(graph);
    if (layer.frozen || !learns[number]) return {forward, 0, 0};
    // A product's gradients are two products of as many operations; what passes over memory reads the gradient besides.
    if (!multiplies) return {forward, forward * 1.5, 0};
    // Nobody wants that of an image.
    const bool wanted = std::any_of(layer.inputs.begin(), layer.inputs.end(), [&](int input) { return learns[static_cast<std::size_t>(input)]; });
    return {forward, wanted ? forward : 0, weights > 0 || layer.kind == LayerKind::attention ? forward : 0};
  }

  TaskCost collective(Goal goal, std::int64_t bytes, const std::vector<int>& workers, StepCosts& resources) const override {
    const auto ranks = static_cast<double>(workers.size());
    if (workers.size() < 2) return {};
    std::map<int, int> nodes;
    for (const int worker : workers) ++nodes[worker / gpu_.per_node];
    const double size = static_cast<double>(bytes);
    // An all-reduce is both halves; the others move half as much.
    const double part = goal == Goal::all_reduce ? 1 : goal == Goal::barrier ? 0 : 0.5;
    if (nodes.size() == 1) return {part * kernels_.all_reduce_in_node(gpu_, size, ranks)};
    const double on_node = ranks / static_cast<double>(nodes.size());
    TaskCost cost{part * kernels_.all_reduce_across(gpu_, size, ranks, on_node), {}};
    for (const auto& [node, count] : nodes) cost.demands.push_back({resources.resource(wire(node)), std::min(1.0, static_cast<double>(count) / gpu_.per_node)});
    return cost;
  }

  TaskCost message(std::int64_t bytes, int from, int to, StepCosts& resources) const override {
    const double size = static_cast<double>(bytes);
    const int here = from / gpu_.per_node, there = to / gpu_.per_node;
    if (here == there) return {launch() + size / (0.5 * gpu_.bus)};
    const double share = 1.0 / gpu_.per_node;
    return {kernels_.library.message_latency(gpu_) + size / (gpu_.network * kernels_.library.network_bandwidth()), {{resources.resource(wire(here)), share}, {resources.resource(wire(there)), share}}};
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
  TaskCost harness(int, StepCosts&) const override { return {}; }

 private:
  /// Of the network that was last asked for.
  const std::vector<bool>& learning(const ModelGraph& graph) const {
    if (learns_.first != &graph || learns_.second.size() != graph.layers.size()) learns_ = {&graph, learning_layers(graph)};
    return learns_.second;
  }
  double launch() const { return is_gpu_ ? kernels_.launch : cpu_call_; }
  static std::string wire(int node) { return fmt::format("wires of node {}", node); }
  double memory() const { return gpu_.bandwidth * (is_gpu_ ? kernels_.pass_bandwidth : cpu_memory_); }

  double product(const ModelGraph& graph, const Layer& layer, double samples) const {
    if (!is_gpu_) return 2 * samples * static_cast<double>(layer.multiply_adds) / (gpu_.peak * cpu_compute_);
    const auto gemm = [&](double rows, double columns, double inner, double batch = 1) { return kernels_.gemm(gpu_, rows, columns, inner, batch, 0); };
    if (layer.kind == LayerKind::linear && !layer.parameters.empty() && layer.parameters[0].shape.size() == 2) {
      const auto& weight = layer.parameters[0].shape;
      return gemm(samples * elements(layer.shape) / static_cast<double>(weight[0]), static_cast<double>(weight[0]), static_cast<double>(weight[1]));
    }
    // cuDNN has a way of its own for each shape; what tells is how much is multiplied, or, of few channels a group, how much is moved.
    if (layer.kind == LayerKind::conv2d) return samples * images_.forward(image_operator(graph, layer));
    return 2 * samples * static_cast<double>(layer.multiply_adds) / (gpu_.peak * kernels_.gemm_efficiency * kernels_.batched_gemm_efficiency * kernels_.derate(gpu_));
  }

  Gpu gpu_;
  GpuKernels kernels_;
  bool is_gpu_;
  double cpu_compute_ = 0, cpu_memory_ = 0, cpu_call_ = 0;
  ImageRoofline images_;  ///< convolutions and batch norms
  double bytes_;
  double passes_of_update_;
  mutable std::pair<const ModelGraph*, std::vector<bool>> learns_{};
};

}  // namespace

bool convolves(const ModelGraph& graph) {
  return std::any_of(graph.layers.begin(), graph.layers.end(), [](const Layer& layer) { return layer.kind == LayerKind::conv2d; });
}

double datasheet_sigma(const ModelGraph& graph) { return convolves(graph) ? kDatasheetSigmaOfConvolutions : kDatasheetSigma; }

double context_bytes(const Json& machine) {
  return machine.contains("device") && machine["device"].value("kind", "gpu") == "gpu" ? term(find_stack("nvidia"), "images.memory_terms.context_bytes") : 0;
}

std::unique_ptr<CostSource> datasheet_source(const Json& machine, const std::string& precision, int optimizer_tensors, int devices_per_node) {
  return std::make_unique<DatasheetMachine>(machine, precision, optimizer_tensors, devices_per_node);
}

}  // namespace ddl
