#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ddl/nn/graph.h"

namespace ddl {

/// How a weight starts, from what its layer takes in and gives out.
using WeightInitialiser = std::function<Initialiser(std::int64_t fan_in, std::int64_t fan_out)>;

Initialiser torch_weights(std::int64_t fan_in, std::int64_t fan_out);   ///< PyTorch's default: uniform_fan_in
Initialiser he_weights(std::int64_t fan_in, std::int64_t fan_out);      ///< he_normal of the outputs
Initialiser glorot_weights(std::int64_t fan_in, std::int64_t fan_out);  ///< glorot_uniform
WeightInitialiser normal_weights(float deviation);
WeightInitialiser uniform_weights(float bound);

/// Puts a graph together layer by layer; each call returns the number of the layer it made.
/// Errors of all: invalid_argument where shapes do not fit, naming the layer, what it got and what it expected.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name);
  /// With an input layer for images, number kInput.
  GraphBuilder(std::string name, std::vector<std::int64_t> images);

  struct Window {
    Pair kernel = 1, stride = 1, padding = 0;
  };
  struct Convolution {
    WeightInitialiser weight = torch_weights;
    bool bias = true;
    bool zero_bias = false;  ///< else U(-1/sqrt(fan_in), 1/sqrt(fan_in))
    std::int64_t groups = 1;
  };
  struct Linear {
    WeightInitialiser weight = torch_weights;
    bool bias = true;
    bool zero_bias = false;
    int tied = -1;           ///< the layer whose first parameter is the weight
    double milliseconds = 0; ///< that the gradient of the weight takes besides: a null workload; kept in Attributes
  };
  struct BatchNorm {
    double epsilon = 1e-5;
    float weight = 1;        ///< to start with
  };
  struct Embedding {
    WeightInitialiser weight = normal_weights(1);
    double factor = 1;       ///< of what is looked up
    int tied = -1;
  };
  struct Attention {
    std::int64_t heads = 1;
    bool causal = false;
    WeightInitialiser weight = glorot_weights;
    WeightInitialiser output = torch_weights;
  };

  int input(const std::string& name, InputPart part, std::vector<std::int64_t> shape);

  // Convolution and normalisation, layers/convolution.cpp and layers/normalisation.cpp.
  int conv2d(const std::string& name, int from, std::int64_t channels, Window window, const Convolution& how);
  int conv2d(const std::string& name, int from, std::int64_t channels, Window window) {
    return conv2d(name, from, channels, window, Convolution{});
  }
  int batch_norm2d(const std::string& name, int from, const BatchNorm& how);
  int batch_norm2d(const std::string& name, int from) { return batch_norm2d(name, from, BatchNorm{}); }
  /// Over the last dimension.
  int layer_norm(const std::string& name, int from);

  // layers/activation.cpp
  int relu(const std::string& name, int from);
  int relu6(const std::string& name, int from);
  int gelu(const std::string& name, int from);
  int tanh(const std::string& name, int from);
  int sigmoid(const std::string& name, int from);

  // layers/pooling.cpp
  int max_pool2d(const std::string& name, int from, Window window);
  int average_pool2d(const std::string& name, int from, Window window, bool count_padding = true);
  /// To maps of `size`, whatever those of the input are.
  int adaptive_average_pool2d(const std::string& name, int from, Pair size);
  int global_average_pool(const std::string& name, int from) { return adaptive_average_pool2d(name, from, 1); }

  // layers/dense.cpp
  /// Of the last dimension.
  int linear(const std::string& name, int from, std::int64_t features, const Linear& how);
  int linear(const std::string& name, int from, std::int64_t features) { return linear(name, from, features, Linear{}); }

  // layers/elementwise.cpp
  int flatten(const std::string& name, int from);
  int add(const std::string& name, int a, int b);
  /// Along the first dimension.
  int concatenate(const std::string& name, const std::vector<int>& from);
  int scale(const std::string& name, int from, double factor);
  /// No layer at all for a rate of 0.
  int dropout(const std::string& name, int from, double rate);
  /// `backward`: the time that its backward takes, of its forward's; kept as Attributes::factor.
  int wait(const std::string& name, int from, double milliseconds, double backward = 0);

  // layers/words.cpp
  /// [words] -> [words, features].
  int embedding(const std::string& name, int words, std::int64_t vocabulary, std::int64_t features, const Embedding& how);
  /// Adds sines and cosines of the places (Vaswani et al. 2017), a constant.
  int sinusoids(const std::string& name, int from);
  /// Adds a learnt vector for each of `places` places; samples may have fewer.
  int learnt_positions(const std::string& name, int from, std::int64_t places, const WeightInitialiser& weight);

  // layers/attention.cpp, layers/recurrent.cpp
  /// Multi-head attention with its projections, as torch.nn.MultiheadAttention: of `queries` [n, features] to itself.
  int self_attention(const std::string& name, int queries, const Attention& how, int padded_words = -1);
  /// To `memory` [m, features]. Places where `padded_words` [m] is kPadding are not seen.
  int cross_attention(const std::string& name, int queries, int memory, const Attention& how, int padded_words = -1);
  /// [n, features] -> [n, hidden]. With `first` [features], that comes before the n and its output is dropped.
  /// Forget gates start open, with a bias of 1, without which half of what is remembered is lost at each place: Jozefowicz, Zaremba &
  /// Sutskever, ICML 2015.
  int lstm(const std::string& name, int from, std::int64_t hidden, const WeightInitialiser& weight, int first = -1);

  // layers/script.cpp
  /// Everything between images and [classes], by a TorchScript file with these parameters.
  int script(const std::string& name, int from, const std::string& file, std::vector<ParameterSpec> parameters, std::int64_t classes);

  /// Layers made from here on do not train.
  void freeze(bool frozen) { frozen_ = frozen; }
  /// `layer` is the auxiliary output; what only it needs is not run in evaluation.
  void auxiliary(int layer) { graph_.auxiliary = layer; }

  static constexpr int kInput = 0;
  const std::string& name() const { return graph_.name; }
  const std::vector<std::int64_t>& shape(int layer) const { return graph_.layers[static_cast<std::size_t>(layer)].shape; }
  ModelGraph finish() &&;

 private:
  int append(Layer layer, Keeps keeps);
  void require_rank(const Layer& layer, std::size_t rank) const;
  [[noreturn]] void fail(const std::string& layer, const std::string& what) const;
  Borrowed borrow(const std::string& layer, int tied, const std::vector<std::int64_t>& expected) const;
  std::vector<std::int64_t> slide(const std::string& name, int from, const Window& window) const;
  int activation(const std::string& name, int from, LayerKind kind, Keeps keeps, std::int64_t flops);
  int attend(Layer layer, const Attention& how, int padded_words);

  ModelGraph graph_;
  bool frozen_ = false;
};

}  // namespace ddl
