#pragma once

#include "ddl/nn/graph_builder.h"

namespace ddl {

/// Blocks of each of the four stages: He et al. 2016, table 1. Errors: none; `depth` is 18, 34, 50, 101 or 152.
std::array<int, 4> resnet_blocks(int depth);

struct ResNetTrunk {
  int depth = 50;
  bool small_images = false;
  std::string prefix = {};    ///< of every name
  /// Whether the last batch norm of each block starts at zero, so that the block starts as the identity: Goyal et al. 2017.
  bool zero_last = false;
  int grid = 1;               ///< cells each way over which the last maps are averaged, one by one
};

/// All of ResNet v1 between an image and the averages over its last maps: [512 or 2048, times grid squared].
int resnet_trunk(GraphBuilder& net, int images, const ResNetTrunk& how);

}  // namespace ddl
