#pragma once

#include <cstddef>
#include <vector>

#include "ddl/nn/graph.h"

namespace ddl {

/// By layer: the last one that reads its value; as many as there are layers where that goes out of the network, 0 where nobody reads it.
std::vector<std::size_t> last_uses(const ModelGraph& graph);

/// Where a network is cut into segments that are run again in backward: layers [cuts[k], cuts[k + 1]), about sqrt(number of layers) of them that keep
/// about as much each. Only where at most two values are alive, and none that the next layer to read it writes over.
/// Source:  Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
std::vector<std::size_t> recompute_cuts(const ModelGraph& graph);

}  // namespace ddl
