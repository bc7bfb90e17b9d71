#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// A binomial tree towards the root: the broadcast's, with the arrows turned round. Count ranks from the root,
/// v = rank - root. Rank v takes from v + 2^j for every 2^j below its lowest set bit, the nearest first, then gives to v
/// without that bit.
/// Shape:   n elements per rank -> n on the root; what the others keep is a part of the sum.
/// Order:   every subtree by itself, then the subtrees from the smallest to the largest.
/// Cost:    ceil(log2 P) rounds of n elements to the root, which reduces ceil(log2 P) * n.
/// Errors:  none.
/// Source:  Thakur, Rabenseifner, Gropp 2005, section 4.
Schedule binomial_reduce(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  const int from_root = (rank + ranks - shape.root) % ranks;
  const auto rank_at = [&](int v) { return (v + shape.root) % ranks; };
  const Range all{0, shape.elements};
  Schedule schedule{rank, ranks, shape.elements, {}};
  int bit = 1;
  for (; bit < ranks && (from_root & bit) == 0; bit *= 2)
    if (from_root + bit < ranks) schedule.rounds.push_back({{StepKind::reduce, rank_at(from_root + bit), all}});
  if (from_root != 0) schedule.rounds.push_back({{StepKind::send, rank_at(from_root - bit), all}});
  return schedule;
}

}  // namespace ddl
