#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// Every slice goes once round a ring and ends, complete, on its owner. Slice i starts at rank i+1.
/// Shape:   n elements per rank -> part r on rank r.
/// Order:   slice i is in_i + (… + (in_(i+2) + in_(i+1))).
/// Cost:    P-1 rounds; (P-1)/P * n elements sent and reduced per rank.
/// Errors:  none.
/// Source:  Patarasuk & Yuan 2009.
Schedule ring_reduce_scatter(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  const auto slice = [&](int back) { return part_of(shape.elements, ranks, ((rank - back) % ranks + ranks) % ranks); };
  Schedule schedule{rank, ranks, shape.elements, {}};
  for (int round = 1; round < ranks; ++round)
    schedule.rounds.push_back({{StepKind::send, (rank + 1) % ranks, slice(round)},
                               {StepKind::reduce, (rank + ranks - 1) % ranks, slice(round + 1)}});
  return schedule;
}

}  // namespace ddl
