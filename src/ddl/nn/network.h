#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/nn/graph.h"

namespace ddl {

struct LayerTensors;
class Past;
class ScriptModule;

/// Which implementation of the layers: `fast` is ours (channels-last where that is faster, no page faults), `torch`
/// plain ATen as an eager PyTorch user runs it.
enum class Kernels : std::uint8_t { fast, torch };

struct NetworkOptions {
  at::ScalarType type = at::kFloat;
  at::Device device{at::kCPU};
  Kernels kernels = Kernels::fast;
  std::uint64_t seed = 1;
  /// Which layers it has tensors for; empty: all. Of others it has what those borrow.
  std::vector<bool> layers = {};
  bool dense_planes = false;  ///< as channels_lie_last() has it; all workers of a job alike, whose gradients add up as they lie
};

/// What a network is given for n samples; what its objective does not have is undefined.
struct NetworkInput {
  at::Tensor images = {};                   ///< [n, channels, height, width]
  at::Tensor source = {};                   ///< [n, words] int64
  at::Tensor target = {};                   ///< [n, words] int64: what is known of the target at each place
  std::vector<std::int64_t> samples = {};   ///< their numbers in the data set, and the step: what stochastic layers draw by
  std::int64_t step = 0;
  /// The same as draws() makes of them, on the network's device: then those are not looked at. Undefined: each layer brings its own there.
  at::Tensor draws = {};
};

struct NetworkOutput {
  at::Tensor logits = {};     ///< [n, classes], or [n, words, vocabulary]
  at::Tensor auxiliary = {};  ///< of an auxiliary head, in training; undefined without one
};

/// Stands in for what layers compute: forward gives a value of the right shape, type and memory format, with whatever autograd is to do of it in backward.
class LayerReplay {
 public:
  virtual ~LayerReplay() = default;
  /// As Network::forward_layer(), of input layers too.
  virtual at::Tensor forward(std::size_t layer, const std::vector<at::Tensor>& values, const NetworkInput& input) = 0;
};

/// A graph with tensors: parameters that are leaves of autograd, those that stand still, and batch statistics.
class Network {
 public:
  /// Errors: of a TorchScript file, see script.h.
  Network(ModelGraph graph, const NetworkOptions& options);
  ~Network();
  Network(Network&&) noexcept;

  /// In training mode batch norm uses, and updates, the statistics of this worker's batch (unless it is frozen), and
  /// dropout draws by input.samples and input.step.
  NetworkOutput forward(const NetworkInput& input, bool training);

  /// Runs layers [first, last) on `values`, one of each layer of the graph; those that no later layer reads are dropped.
  void forward_layers(std::size_t first, std::size_t last, std::vector<at::Tensor>& values, const NetworkInput& input, bool training);
  /// The same from `layer` on as far as layers are computed together, and before `last`: gives the one after them. Of those, only the last has a value.
  std::size_t forward_next(std::size_t layer, std::size_t last, std::vector<at::Tensor>& values, const NetworkInput& input, bool training);
  /// One layer of `values`, which nothing is dropped from. With a `past`, what depends on the target is of one place alone, the one after
  /// those that are past (past.h).
  at::Tensor forward_layer(std::size_t layer, const std::vector<at::Tensor>& values, const NetworkInput& input, bool training,
                           Past* past = nullptr);
  /// What its dropout draws by for these samples in this step: [layers that drop, n] int64, on the host. Undefined without such.
  at::Tensor draws(const std::vector<std::int64_t>& samples, std::int64_t step) const;
  /// From now on layers are replayed, not computed. Is kept by reference; null: computed again.
  void replay_with(LayerReplay* replay) { replay_ = replay; }
  /// The layer after which nobody reads the value of `layer`; the number of layers for what the network gives out.
  std::size_t last_use(std::size_t layer) const { return last_use_[layer]; }
  /// Those that train, of one layer; what it borrows too.
  std::vector<at::Tensor> parameters_of(std::size_t layer) const;
  /// Whether the layer writes over its first input.
  bool overwrites(std::size_t layer) const { return graph_.layers[layer].in_place; }

  const ModelGraph& graph() const { return graph_; }
  /// Those that train and that it has, in the order of graph().parameter_specs().
  std::vector<at::Tensor>& parameters() { return parameters_; }
  /// Of each of parameters(), its number in graph().parameter_specs(); ascending.
  const std::vector<int>& parameter_numbers() const { return numbers_; }
  /// Computes with other tensors of the same shapes in the place of parameters(), which this then gives; none: as it is.
  void use(const std::vector<at::Tensor>& parameters);
  Kernels kernels() const { return options_.kernels; }
  /// Of floating-point tensors.
  at::TensorOptions tensor_options() const { return at::TensorOptions(options_.type).device(options_.device); }
  /// Those that do not train, in the order of graph().frozen_specs().
  std::vector<at::Tensor>& frozen() { return frozen_; }
  /// Running means and variances of every batch norm that learns, in order.
  std::vector<at::Tensor>& buffers() { return buffers_; }
  /// Of each of buffers(), its number among those of a network that has all layers; ascending.
  const std::vector<int>& buffer_numbers() const { return buffer_numbers_; }
  std::vector<std::string> parameter_names() const;

  /// The memory format in which images are best handed over.
  at::MemoryFormat memory_format() const { return format_; }

 private:
  /// What its kind computes. `rectifies`: with the ReLU after it.
  at::Tensor run_operator(std::size_t number, const std::vector<at::Tensor>& values, const NetworkInput& input, bool training, Past* past, bool rectifies);

  at::Tensor make(const ParameterSpec& spec, std::uint64_t index) const;
  bool has(std::size_t layer) const { return options_.layers.empty() || options_.layers[layer]; }
  void adopt();
  std::vector<std::vector<bool>> present() const;

  ModelGraph graph_;
  NetworkOptions options_;
  at::MemoryFormat format_;
  std::vector<at::Tensor> parameters_;
  std::vector<int> numbers_;                  ///< of parameters_
  std::vector<at::Tensor> frozen_;
  std::vector<at::Tensor> buffers_;
  std::vector<int> buffer_numbers_;
  std::vector<LayerTensors> tensors_;         ///< of each layer
  std::vector<std::size_t> last_use_;         ///< the layer after which a value is dropped
  std::unique_ptr<ScriptModule> script_;
  LayerReplay* replay_ = nullptr;
};

}  // namespace ddl
