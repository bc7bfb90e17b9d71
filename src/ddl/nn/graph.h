#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddl {

/// Each kind is described in layers/ (shapes, parameters, costs; no LibTorch) and computed in operators/.
enum class LayerKind : std::uint8_t {
  input,
  conv2d,
  batch_norm2d,
  layer_norm,
  relu,
  relu6,
  gelu,
  tanh,
  sigmoid,
  max_pool2d,
  average_pool2d,
  adaptive_average_pool2d,
  flatten,
  linear,
  add,
  concatenate,
  scale,
  dropout,
  embedding,
  positions,  ///< adds sinusoids, or learnt vectors, of each place
  attention,
  lstm,
  wait,       ///< passes its input on after `milliseconds`: a null workload
  script,     ///< a TorchScript file: everything between images and logits
  // Of networks that are split among workers alone (split/split.h):
  exchange,         ///< changes how a value lies on the parts
  bias,             ///< adds a vector along channels or features, once what it is added to is complete
  batch_moments,    ///< [channels, rows, columns] of a batch -> its means and, a sample, sums of squared deviations [1, 2 channels], one for the whole batch
  merge_moments,    ///< of several parts of maps [parts, 2 channels] -> of those maps [1, 2 channels]
  batch_normalise,  ///< batch norm with the moments of all parts, [parts, 2 channels], each weighted by its pixels
};

/// How a tensor starts.
struct Initialiser {
  enum class Kind : std::uint8_t {
    constant,   ///< all `value`
    uniform,    ///< U(-value, value)
    normal,     ///< N(0, value^2)
    sinusoids,  ///< of [places, features]: Vaswani et al. 2017, section 3.5
    forget,     ///< of an LSTM's bias: `value` for its forget gates, which are the second quarter, else 0
    file,       ///< comes from a file, with the layer
  };
  Kind kind = Kind::constant;
  float value = 0;

  static Initialiser zeros() { return {}; }
  static Initialiser ones() { return {Kind::constant, 1}; }
  static Initialiser uniform(float bound) { return {Kind::uniform, bound}; }
  static Initialiser forget(float bias) { return {Kind::forget, bias}; }
  static Initialiser normal(float deviation) { return {Kind::normal, deviation}; }
  /// U(-1/sqrt(fan_in), 1/sqrt(fan_in)): PyTorch's default of linear and convolution layers.
  static Initialiser uniform_fan_in(std::int64_t fan_in);
  /// N(0, 2/fan): He et al. 2015; with the fan of outputs, as ResNets start.
  static Initialiser he_normal(std::int64_t fan);
  /// U(-a, a) with a = sqrt(6/(fan_in+fan_out)): Glorot & Bengio 2010.
  static Initialiser glorot_uniform(std::int64_t fan_in, std::int64_t fan_out);
};

struct IndexRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const IndexRange&) const = default;
};

/// Which part of a whole tensor this is: those indices of each dimension that is cut, in this order. Of values, dimensions are those of a sample.
struct TensorPiece {
  struct Cut {
    int dimension = 0;
    std::vector<IndexRange> ranges = {};
    bool operator==(const Cut&) const = default;
  };
  std::vector<std::int64_t> whole = {};    ///< shape
  std::vector<Cut> cuts = {};              ///< one of a dimension, ascending
  /// Of a dimension; null where it is not cut.
  const std::vector<IndexRange>* along(int dimension) const;
  bool operator==(const TensorPiece&) const = default;
};

/// A tensor that a layer owns: a parameter, a running statistic or a constant.
struct ParameterSpec {
  std::string name;  ///< as in PyTorch's state dict: `layer1.0.conv1.weight`
  std::vector<std::int64_t> shape;
  Initialiser initialiser = {};
  bool trainable = true;
  std::optional<TensorPiece> piece = {};  ///< of a split network's: which part of the whole network's it is; it starts as that does
  std::vector<int> cut_along = {};        ///< axes of the split (split/split.h) whose places have pieces of their own; along the others they have the same
  /// Axes along which every place has all of it, or the same piece, but sees its gradient in part: those of all places are to be added.
  std::vector<int> partial_along = {};

  std::int64_t elements() const;
};

/// A parameter of another layer, used here too (tied weights).
struct Borrowed {
  int layer = 0;
  int parameter = 0;
};

/// Which part of a sample an input layer stands for.
enum class InputPart : std::uint8_t { images, source, target };

/// Of height and width. One number stands for both.
struct Pair {
  std::int64_t height = 0, width = 0;
  constexpr Pair(std::int64_t both) : height(both), width(both) {}
  constexpr Pair(std::int64_t h, std::int64_t w) : height(h), width(w) {}
  bool operator==(const Pair&) const = default;
};

/// What kinds need beyond shapes; those that a kind does not name, it does not read.
struct Attributes {
  Pair kernel = 0, stride = 1, padding = 0;  ///< conv2d, pools
  std::int64_t groups = 1;                   ///< conv2d
  bool count_padding = true;                 ///< average_pool2d: padding counts as pixels
  std::int64_t heads = 1;                    ///< attention
  bool causal = false;                       ///< attention: a place sees itself and what is before it
  double epsilon = 1e-5;                     ///< batch_norm2d, layer_norm
  double momentum = 0.1;                     ///< batch_norm2d: weight of the newest statistics
  double rate = 0;                           ///< dropout
  double factor = 1;                         ///< scale, embedding
  double milliseconds = 0;                   ///< wait; linear: of the gradient of its weight
  InputPart part = InputPart::images;        ///< input
  std::string file = {};                     ///< script
  Pair padding_after = -1;                   ///< conv2d, pools: below and to the right where that differs from `padding`; -1: it does not
  IndexRange words = {};                     ///< embedding: whose vectors are here, of others it gives zeros; empty: all
  std::vector<std::int64_t> counts = {};     ///< batch_normalise, merge_moments: pixels of each part's maps
};

/// What an exchange moves between the parts of a split network, in one of its directions.
enum class Move : std::uint8_t {
  none,            ///< nothing: values pass as they are
  all_reduce,      ///< the sum of all parts' summands, on each
  all_gather,      ///< pieces -> the whole, on each
  reduce_scatter,  ///< summands of the whole -> pieces of their sum
  slice,           ///< the whole, on each -> pieces; without communication
  halo,            ///< pieces -> pieces that may overlap
  halo_add,        ///< overlapping pieces of a gradient -> pieces: what several hold is added
};

/// Of a layer of kind exchange, between the places of one axis that agree in all others. Pieces lie along `dimension`; those of a place are ranges of the
/// whole, ascending, and together they are the whole.
struct PartExchange {
  Move forward = Move::none, backward = Move::none;
  int axis = 0;
  int part = 0, parts = 1;                          ///< this place, of how many of the axis
  int dimension = 0;
  std::vector<std::int64_t> whole = {};             ///< shape of a sample, or of what a batch has once, as far as other axes leave it
  std::vector<std::vector<IndexRange>> before = {};  ///< of each part, where its input is a piece
  std::vector<std::vector<IndexRange>> after = {};   ///< of each part, where its output is
  bool per_batch = false;                           ///< the value is one for the whole batch: its first dimension is 1
  /// What this part receives for one sample (or batch) where each collective moves as little as it can (a ring's). The largest of
  /// the parts decide how long it takes.
  std::int64_t forward_elements = 0, backward_elements = 0;
};

/// What autograd keeps for a layer's backward.
struct Keeps {
  bool inputs = false;
  bool output = false;
  std::int64_t extra = 0;  ///< elements of fp32
  std::int64_t padded = 0; ///< elements of its input with the padding around it, where that is made in memory
  bool view = false;       ///< its output is its input's memory
  bool can_overwrite = false;

  std::int64_t own() const { return extra + padded; }  ///< elements besides inputs and output
};

/// One layer: what it computes and what that costs, known before any tensor exists. Shapes are those of one sample:
/// [channels, height, width] of images, [words], [words, features] or [features].
struct Layer {
  std::string name;
  LayerKind kind = LayerKind::input;
  std::vector<int> inputs = {};               ///< numbers of earlier layers
  std::vector<std::int64_t> shape = {};       ///< of its output
  Attributes attributes = {};
  std::vector<ParameterSpec> parameters = {};
  std::vector<Borrowed> borrowed = {};        ///< follow its own parameters
  std::vector<ParameterSpec> statistics = {}; ///< running ones, changed by forward in training
  std::vector<ParameterSpec> constants = {};
  std::int64_t flops = 0;                     ///< forward, one sample; a multiply-add counts 2
  std::int64_t multiply_adds = 0;             ///< of matrix products alone: what papers print as FLOPs or GMACs
  std::int64_t kept_elements = 0;             ///< what backward needs of this layer's output and of its own, one sample
  bool frozen = false;                        ///< nothing in it trains, and its statistics stand still
  bool auxiliary = false;                     ///< only the auxiliary output needs it: not run in evaluation
  bool in_place = false;                      ///< may write over its first input: nobody needs that any more
  Keeps keeps = {};
  // Of split networks:
  int origin = -1;                            ///< the layer of the whole network that it computes, or whose value it moves
  std::optional<TensorPiece> piece = {};            ///< its output is that piece of the whole one's
  std::optional<PartExchange> exchange = {};
};

/// A network as data: read by the builder of tensors, the partitioner, the memory ledger and the predictor.
struct ModelGraph {
  std::string name;
  std::vector<Layer> layers;                  ///< in an order in which each comes after its inputs; the last is the output
  int auxiliary = -1;                         ///< the layer that is the auxiliary output, or -1

  /// Elements of what trains, and of what does not.
  std::int64_t parameters() const;
  std::int64_t frozen_parameters() const;
  std::int64_t flops() const;                 ///< forward in training, one sample
  std::int64_t multiply_adds() const;         ///< forward in evaluation, one sample
  std::int64_t kept_elements() const;
  /// All parameters that train, in the order of the layers that own them.
  std::vector<ParameterSpec> parameter_specs() const;
  std::vector<ParameterSpec> frozen_specs() const;
};

/// Marks what only the auxiliary output needs.
void mark_auxiliary(ModelGraph& graph);
/// Whether maps lie channels last where kernels are fast, on processors: oneDNN works on blocks of channels, and with the few of a LeNet reordering costs more than it saves.
bool has_wide_convolutions(const ModelGraph& graph);
/// The same of a job's workers; where `dense_planes` (plan_job.h), not of networks none of whose convolutions is in groups.
bool channels_lie_last(const ModelGraph& graph, bool dense_planes);

/// Fills in kept_elements and in_place of all layers.
void count_kept(ModelGraph& graph);

/// Whether layer `at` is a ReLU that the max pool after it alone reads, so that both can be computed in one pass (operators/max_pool.h). `last_use`: last_uses() of the graph.
bool rectifies_for_pool(const ModelGraph& graph, const std::vector<std::size_t>& last_use, std::size_t at);
/// Whether layer `at` is a convolution or a linear layer that a ReLU alone reads, which then is computed as its output is written; but where that ReLU is a max pool's.
bool rectifies_at_once(const ModelGraph& graph, const std::vector<std::size_t>& last_use, std::size_t at);

/// What is kept, by layer, where the fast kernels of a processor compute: a max pool keeps a byte for each element that it makes, and not its input. A ReLU that goes with it is nothing of its own; where a cut lies between the two it is, which is not counted.
std::vector<Keeps> kept_by_own_kernels(const ModelGraph& graph);

/// The values a tensor starts with, the same on every worker and for every LibTorch: a pure function of (spec, seed,
/// index of the parameter). `values` holds spec.elements() floats. Those of a file are not made here.
void initialise(const ParameterSpec& spec, std::uint64_t seed, std::uint64_t index, float* values);

std::int64_t elements_of(const std::vector<std::int64_t>& shape);
/// "3x224x224".
std::string to_string(const std::vector<std::int64_t>& shape);

}  // namespace ddl
