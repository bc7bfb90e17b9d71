#include "ddl/collective/algorithms/algorithms.h"

#include "ddl/collective/algorithms/tree.h"

namespace ddl {

/// Two binary trees at once, each with half of the buffer, made so that a rank that is an inner node of one is a leaf of
/// the other: together they use both directions of every rank's link, which one tree leaves half idle.
/// Shape:   n elements per rank -> n.
/// Order:   every rank adds its children's sums in the order of their turns, for each half in its tree.
/// Cost:    2 log2 P levels of latency, and about 2n sent per rank: the ring's bandwidth with logarithmic latency.
/// Errors:  none.
/// Source:  Sanders, Speck, Traeff 2009, section 3.
Schedule double_tree_all_reduce(int rank, const CollectiveShape& shape) {
  std::vector trees{in_order_tree(shape.ranks), complementary_tree(shape.ranks)};
  take_turns(trees[0], trees[1]);
  return all_reduce_on(trees, rank, shape);
}

}  // namespace ddl
