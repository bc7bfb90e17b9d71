#pragma once

#include <array>
#include <vector>

#include "ddl/plan/schedule.h"

namespace ddl {

/// A binary tree over ranks.
struct BinaryTree {
  struct Node {
    int parent = kNobody;
    int child_number = 0;  ///< of its parent: 0 or 1
    std::array<int, 2> children{kNobody, kNobody};
    int depth = 0;
  };
  std::vector<Node> nodes;
  int depth = 0;  ///< of the deepest node
};

/// Ranks in order from left to right, every left subtree full: even ranks are leaves (but for the last one, at times).
BinaryTree in_order_tree(int ranks);
/// The same tree over other ranks: a leaf of in_order_tree() is an inner node here and the other way round, but for at
/// most one rank.
BinaryTree complementary_tree(int ranks);

/// Up and down one tree, or several at once, each with its part of the buffer in segments of at most `segment` elements.
Schedule all_reduce_on(const std::vector<BinaryTree>& trees, int rank, const CollectiveShape& shape);

}  // namespace ddl
