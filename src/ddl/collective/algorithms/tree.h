#pragma once

#include <array>
#include <vector>

#include "ddl/plan/schedule.h"

namespace ddl {

/// A binary tree over ranks.
struct BinaryTree {
  struct Node {
    int parent = kNobody;
    int turn = 0;  ///< when its parent takes from it, and gives to it: first or second of two
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

/// Sets turns so that no rank deals with both of its parents in the same one: then every rank sends and receives as much in
/// every turn, which is what two trees are for.
/// Source: Sanders, Speck, Traeff 2009, section 3.1 (their colouring of edges).
void take_turns(BinaryTree& one, BinaryTree& other);

/// Up and down one tree, or several at once, each with its part of the buffer in segments of at most `segment` elements.
Schedule all_reduce_on(const std::vector<BinaryTree>& trees, int rank, const CollectiveShape& shape);

}  // namespace ddl
