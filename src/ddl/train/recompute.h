#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ddl/nn/network.h"
#include "ddl/nn/recompute_cuts.h"

namespace ddl {

/// Network::forward in training in segments (nn/recompute_cuts.h), that keeps only what crosses from one segment to the next; backward computes a
/// segment's activations again, just before it needs them. The last segment, which backward would begin with, is kept.
/// Gradients, batch statistics and dropout are, bit for bit, those of plain forward: the operators are run again on the same
/// inputs, and running statistics are updated once. Costs one more forward of all segments but the last.
/// `precision`: as jobs name it; sets Autocast itself, here and in backward.
/// Source:  Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
NetworkOutput forward_with_recompute(Network& network, const std::vector<std::size_t>& cuts, const NetworkInput& input, const std::string& precision);

}  // namespace ddl
