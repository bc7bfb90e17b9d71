#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ddl/nn/network.h"

namespace ddl {

/// Where a network is cut into segments: layers [cuts[k], cuts[k + 1]), about sqrt(number of layers) of them that keep
/// about as much each. Only where at most two values are alive, and none that the next layer to read it writes over.
std::vector<std::size_t> recompute_cuts(const Network& network);

/// Network::forward in training, that keeps only what crosses from one segment to the next; backward computes a
/// segment's activations again, just before it needs them. The last segment, which backward would begin with, is kept.
/// Gradients, batch statistics and dropout are, bit for bit, those of plain forward: the operators are run again on the same
/// inputs, and running statistics are updated once. Costs one more forward of all segments but the last.
/// `precision`: as jobs name it; sets Autocast itself, here and in backward.
/// Source:  Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
NetworkOutput forward_with_recompute(Network& network, const std::vector<std::size_t>& cuts, const NetworkInput& input, const std::string& precision);

}  // namespace ddl
