#pragma once

#include <cstdint>
#include <vector>

#include "ddl/nn/graph.h"

namespace ddl {

/// How large a unit of parameters is that is gathered and dropped together.
struct UnitSize {
  std::int64_t bytes = 0;  ///< 0: by `blocks`
  int blocks = 0;
};

/// First layers of the blocks that a network is made of: cut where fewer values cross than a little earlier and a little later, or, in a chain, at every
/// layer. Ascending from 0.
std::vector<int> network_blocks(const ModelGraph& graph);

/// First layers of units. A unit is as many blocks as fit its size, one at least; a block that does not fit it is taken layer by layer. What has no
/// parameters goes with what is before it.
/// `bytes`: of each parameter, 0 of those that are gathered otherwise.
std::vector<int> cut_units(const ModelGraph& graph, const std::vector<std::int64_t>& bytes, const UnitSize& size);

/// A sixteenth of the bytes, but a MiB at least: a unit that waits beside the one that computes is then an eighth of the network at most, and
/// each gather worth its latency.
std::int64_t usual_unit_bytes(std::int64_t all);

}  // namespace ddl
