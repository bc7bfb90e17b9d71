#pragma once

#include <cstdint>
#include <vector>

#include "ddl/nn/graph.h"

namespace ddl {

/// A value that is made before a cut and read at or after it.
struct CrossingValue {
  int layer = 0;                         ///< that makes it
  std::vector<std::int64_t> shape = {};  ///< of one sample
  std::int64_t bytes = 0;                ///< of one sample
  /// Whether a gradient of the same shape comes back: something at or before `layer` learns.
  bool gradient = false;
  /// The layer after the cut that would write over it in place, perhaps through a view of it, or -1. That layer must not: the value is
  /// a leaf of its stage's part of autograd.
  int overwritten_by = -1;
};

/// Everything that crosses one cut, by layer. A value that is read two stages on crosses both cuts: stages hand on what is not for them.
struct Cut {
  std::vector<CrossingValue> values = {};
  std::int64_t bytes = 0;           ///< of one sample, forward
  std::int64_t gradient_bytes = 0;  ///< of one sample, backward
};

/// One Cut before each layer; the first is empty. Each value counts once however many layers read it. What input layers give does not
/// cross, since every stage can load it for itself. The auxiliary output is read after the last layer, by the loss, and so crosses
/// every cut after the layer that makes it; it and what leads to it alone cross in training only (Layer::auxiliary). `element_bytes`: by layer, of what it makes.
std::vector<Cut> find_cuts(const ModelGraph& graph, const std::vector<std::int64_t>& element_bytes);

/// Of each layer, whether its output depends on a parameter that trains, its own ones and borrowed ones included: elsewhere autograd
/// does nothing.
std::vector<bool> learning_layers(const ModelGraph& graph);

}  // namespace ddl
