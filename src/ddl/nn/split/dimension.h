#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/spec.h"
#include "ddl/nn/graph.h"

namespace ddl {

/// What the dimensions of values and weights are called, as Mesh-TensorFlow's are (Shazeer et al., NeurIPS 2018): every tensor that has a
/// dimension of a name that is split is split along it.
enum class Dimension : std::uint8_t {
  channels,    ///< of images and convolutions
  height,      ///< rows of images
  width,
  features,    ///< of words and vectors, where they are neither hidden nor a vocabulary: what residual connections carry
  heads,       ///< of attention, with their queries, keys and values
  hidden,      ///< what a linear layer makes that only linear layers read, through activations and dropout
  vocabulary,  ///< words of an embedding's table; logits, also of classes
  sequence,    ///< places of words
};

std::string_view name(Dimension dimension);
/// Errors: invalid_argument with the nearest of the names; `batch` is strategy data's.
Dimension dimension_from_name(std::string_view word);

/// Which dimensions a network is split along by one axis of workers; of a tensor that has several of them, one is.
struct SplitOptions {
  std::vector<Dimension> dimensions;

  bool operator==(const SplitOptions&) const = default;
  bool splits(Dimension dimension) const;
};

/// Reads the options `split` and `sequence` of a strategy:
///   split=megatron          heads+hidden+vocabulary (Shoeybi et al. 2019); the standard
///   split=channels          channels+features+hidden+vocabulary: every convolution and linear layer
///   split=A+B…              dimensions by their names
///   sequence=on|off         and sequence, too: Megatron's sequence parallelism (Korthikanti et al. 2022); off unless told
///   split=…/…               those of each axis of a mesh, of which a tensor is split along one each; of one that is on several each part has a part of a part
/// Errors: invalid_argument.
std::vector<SplitOptions> split_options(const Spec& spec);
/// "height/heads+hidden": the names alone, which split_from_words() reads back.
std::string words_of(const std::vector<SplitOptions>& axes);
std::vector<SplitOptions> split_from_words(const std::string& words);

/// The dimensions that some layer of a network has, in the order of the enum.
std::vector<Dimension> dimensions_of(const ModelGraph& graph);

/// Of every layer, what the last dimension of its value is: features, hidden or vocabulary; of images that is not asked.
std::vector<Dimension> last_dimensions(const ModelGraph& graph);

}  // namespace ddl
