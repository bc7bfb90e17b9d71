#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// Every slice goes once round a ring.
/// Shape:   part r on rank r -> n elements on every rank.
/// Cost:    P-1 rounds; (P-1)/P * n elements sent per rank, always to the same neighbour.
/// Errors:  none.
/// Source:  Thakur, Rabenseifner, Gropp 2005, section 4.
Schedule ring_all_gather(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  const auto slice = [&](int back) { return part_of(shape.elements, ranks, ((rank - back) % ranks + ranks) % ranks); };
  Schedule schedule{rank, ranks, shape.elements, {}};
  for (int round = 0; round + 1 < ranks; ++round)
    schedule.rounds.push_back({{StepKind::send, (rank + 1) % ranks, slice(round)},
                               {StepKind::receive, (rank + ranks - 1) % ranks, slice(round + 1)}});
  return schedule;
}

}  // namespace ddl
