#pragma once

#include <cstdint>
#include <vector>

#include "ddl/nn/graph.h"

namespace ddl {

/// Who else uses a layer's first parameter, its own or borrowed.
enum class Sharing : std::uint8_t {
  none,
  tables,   ///< embeddings, which leave the rows that they read to autograd (operators/look_up.h)
  product,  ///< of an embedding's: a linear layer, whose gradient has all rows; other embeddings too
  others,   ///< of a linear layer's: another one
};

/// By layer, among those that are here (`here`, by layer; empty: all).
std::vector<Sharing> sharing_of_layers(const ModelGraph& graph, const std::vector<bool>& here = {});

/// By layer: whether several gradients of all of its first parameter are made, which autograd sums before they go to their place: those of two products. A single one is made there, and rows of a table are added to it.
std::vector<bool> summed_by_autograd(const ModelGraph& graph);

}  // namespace ddl
