#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// A binomial tree. Count ranks from the root: v = rank - root. Rank v takes the buffer from v without its lowest set
/// bit, then gives it to v + 2^j for every 2^j below that bit, the largest first: the subtree that is deepest starts
/// earliest.
/// Shape:   n elements on the root -> n on every rank.
/// Cost:    ceil(log2 P) rounds from root to the last leaf; n elements taken per rank but the root, which sends
///          ceil(log2 P) * n.
/// Errors:  none.
/// Source:  R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
///          Int. J. High Perform. Comput. Appl. 19(1), 2005.
Schedule binomial_broadcast(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  const int from_root = (rank + ranks - shape.root) % ranks;
  const auto rank_at = [&](int v) { return (v + shape.root) % ranks; };
  const Range all{0, shape.elements};

  Schedule schedule{rank, ranks, shape.elements, {}};
  // The lowest set bit; for the root the first power of two that no rank reaches.
  int bit = 1;
  while (bit < ranks && (from_root & bit) == 0) bit *= 2;
  if (from_root != 0) schedule.rounds.push_back({{StepKind::receive, rank_at(from_root - bit), all}});
  for (bit /= 2; bit > 0; bit /= 2)
    if (from_root + bit < ranks) schedule.rounds.push_back({{StepKind::send, rank_at(from_root + bit), all}});
  return schedule;
}

}  // namespace ddl
