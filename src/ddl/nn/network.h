#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/nn/graph.h"

namespace ddl {

/// Which implementation of the layers: `fast` is ours (channels-last where that is faster, no page faults), `torch`
/// plain ATen as an eager PyTorch user runs it.
enum class Kernels : std::uint8_t { fast, torch };

struct NetworkOptions {
  at::ScalarType type = at::kFloat;
  at::Device device{at::kCPU};
  Kernels kernels = Kernels::fast;
  std::uint64_t seed = 1;
};

/// What a network is given for n samples; what its objective does not have is undefined.
struct NetworkInput {
  at::Tensor images = {};                   ///< [n, channels, height, width]
  at::Tensor source = {};                   ///< [n, words] int64
  at::Tensor target = {};                   ///< [n, words] int64: what is known of the target at each place
  std::vector<std::int64_t> samples = {};   ///< their numbers in the data set, and the step: what stochastic layers draw by
  std::int64_t step = 0;
};

struct NetworkOutput {
  at::Tensor logits = {};     ///< [n, classes], or [n, words, vocabulary]
  at::Tensor auxiliary = {};  ///< of an auxiliary head, in training; undefined without one
};

/// A graph with tensors: parameters that are leaves of autograd, and batch statistics.
class Network {
 public:
  Network(ModelGraph graph, const NetworkOptions& options);

  /// In training mode batch norm uses, and updates, the statistics of this worker's batch (momentum 0.1, eps 1e-5, as
  /// torch.nn.BatchNorm2d).
  NetworkOutput forward(const NetworkInput& input, bool training);

  /// Runs layers [first, last) on `values`, one of each layer of the graph; those that no later layer reads are dropped.
  void forward_layers(std::size_t first, std::size_t last, std::vector<at::Tensor>& values, const NetworkInput& input, bool training);
  /// The layer after which nobody reads the value of `layer`.
  std::size_t last_use(std::size_t layer) const { return last_use_[layer]; }
  /// Those that train, of one layer.
  std::vector<at::Tensor> parameters_of(std::size_t layer) const;
  /// Whether the layer writes over its first input.
  bool overwrites(std::size_t layer) const;

  const ModelGraph& graph() const { return graph_; }
  /// In the order of graph().parameter_specs().
  std::vector<at::Tensor>& parameters() { return parameters_; }
  /// Running means and variances of every batch norm, in order.
  std::vector<at::Tensor>& buffers() { return buffers_; }
  std::vector<std::string> parameter_names() const;

  /// The memory format in which images are best handed over.
  at::MemoryFormat memory_format() const { return format_; }

 private:
  at::Tensor run(const Layer& layer, std::size_t number, std::vector<at::Tensor>& values, bool training);

  ModelGraph graph_;
  at::MemoryFormat format_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;
  std::vector<std::size_t> first_parameter_;  ///< of each layer
  std::vector<std::size_t> first_buffer_;
  std::vector<std::size_t> last_use_;         ///< the layer after which a value is dropped
};

}  // namespace ddl
