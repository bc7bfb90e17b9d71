#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ddl {

enum class LayerKind : std::uint8_t {
  input,
  conv2d,
  batch_norm2d,
  relu,
  max_pool2d,
  global_average_pool,
  flatten,
  linear,
  add,
  wait,  ///< passes its input on after `milliseconds`: a null workload
};

/// How a parameter starts. `fan_in` and `fan_out` are those of Glorot & Bengio 2010.
enum class Initialiser : std::uint8_t {
  zeros,
  ones,
  uniform_fan_in,  ///< U(-1/sqrt(fan_in), 1/sqrt(fan_in)): PyTorch's default of linear and convolution layers
  normal_fan_out,  ///< N(0, 2/fan_out): He et al. 2015, as ResNets start
};

struct ParameterSpec {
  std::string name;                 ///< as in PyTorch's state dict: `layer1.0.conv1.weight`
  std::vector<std::int64_t> shape;
  Initialiser initialiser = Initialiser::zeros;
  std::int64_t fan = 0;             ///< the fan that the initialiser reads

  std::int64_t elements() const;
};

/// One layer: what it computes and what that costs, known before any tensor exists. Shapes are those of one sample.
struct Layer {
  std::string name;
  LayerKind kind = LayerKind::input;
  std::vector<int> inputs;              ///< numbers of earlier layers
  std::vector<std::int64_t> shape;      ///< of its output
  std::vector<ParameterSpec> parameters;
  std::int64_t kernel = 0, stride = 1, padding = 0;
  double milliseconds = 0;              ///< of wait
  std::int64_t flops = 0;               ///< forward, one sample; a multiply-add counts 2
  std::int64_t kept_elements = 0;       ///< what backward needs of this layer, one sample
};

/// A network as data: read by the builder of tensors, the partitioner, the memory ledger and the predictor.
struct ModelGraph {
  std::string name;
  std::vector<Layer> layers;            ///< in an order in which each comes after its inputs; the last is the output

  std::int64_t parameters() const;      ///< elements
  std::int64_t flops() const;           ///< forward, one sample
  std::int64_t kept_elements() const;
  /// All parameters in the order of the layers that own them.
  std::vector<ParameterSpec> parameter_specs() const;
};

/// The values a parameter starts with, the same on every worker and for every LibTorch: a pure function of (spec,
/// seed, index of the parameter). `values` holds spec.elements() floats.
void initialise(const ParameterSpec& spec, std::uint64_t seed, std::uint64_t index, float* values);

/// Puts a graph together layer by layer; each call returns the number of the layer it made.
/// Errors of all: invalid_argument where shapes do not fit, naming the layer, what it got and what it expected.
class GraphBuilder {
 public:
  GraphBuilder(std::string name, std::vector<std::int64_t> input_shape);

  struct Window {
    std::int64_t kernel = 1, stride = 1, padding = 0;
  };
  struct ConvOptions {
    bool bias = true;
    Initialiser initialiser = Initialiser::uniform_fan_in;
  };
  int conv2d(const std::string& name, int from, std::int64_t channels, Window window, ConvOptions options);
  int conv2d(const std::string& name, int from, std::int64_t channels, Window window) {
    return conv2d(name, from, channels, window, ConvOptions{});
  }
  int batch_norm2d(const std::string& name, int from);
  int relu(const std::string& name, int from);
  int max_pool2d(const std::string& name, int from, Window window);
  int global_average_pool(const std::string& name, int from);
  int flatten(const std::string& name, int from);
  int linear(const std::string& name, int from, std::int64_t features);
  int add(const std::string& name, int a, int b);
  int wait(const std::string& name, int from, double milliseconds);

  static constexpr int kInput = 0;
  const std::vector<std::int64_t>& shape(int layer) const { return graph_.layers[static_cast<std::size_t>(layer)].shape; }
  ModelGraph finish() &&;

 private:
  int append(Layer layer);
  Layer& require_rank(Layer& layer, std::size_t rank);
  ModelGraph graph_;
};

}  // namespace ddl
