#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// Everyone takes every slice from its owner: in round k rank r takes from r+k and gives to r-k.
/// Shape:   part r on rank r -> n elements on every rank.
/// Cost:    P-1 rounds; (P-1)/P * n elements sent per rank.
/// Errors:  none.
/// Source:  pairwise exchange as in Thakur, Rabenseifner, Gropp 2005.
Schedule direct_all_gather(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  const auto slice_of = [&](int owner) { return part_of(shape.elements, ranks, owner); };
  Schedule schedule{rank, ranks, shape.elements, {}};
  for (int k = 1; k < ranks; ++k) {
    const int from = (rank + k) % ranks;
    const int to = (rank + ranks - k) % ranks;
    schedule.rounds.push_back({{StepKind::send, to, slice_of(rank)}, {StepKind::receive, from, slice_of(from)}});
  }
  return schedule;
}

}  // namespace ddl
