#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// Reduce-scatter, then all-gather, on a logical ring: every rank sends to the next and takes from the one before.
/// Slice i starts at rank i as that rank's input. In each round of the first half all slices move one rank on, and the
/// rank that a slice comes to adds it to its own; after P-1 rounds slice i is complete on rank i-1. In the second half
/// the complete slices go round once more and replace what they find.
/// Shape:   n elements per rank -> n; n may be 0 or not divisible by P.
/// Order:   slice i is in_(i-1) + (… + (in_(i+1) + in_i)), wherever it ends up.
/// Cost:    2(P-1) rounds; about 2(P-1)/P * n elements sent per rank, (P-1)/P * n reduced. Any two rounds use the same
///          two links of a rank, which is what makes it the choice where links, not latencies, are the limit.
/// Errors:  none.
/// Source:  P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
///          J. Parallel Distrib. Comput. 69(2), 2009.
Schedule ring_all_reduce(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  const int next = (rank + 1) % ranks;
  const int before = (rank + ranks - 1) % ranks;
  // `back` slices before our own on the ring.
  const auto slice = [&](int back) { return part_of(shape.elements, ranks, ((rank - back) % ranks + ranks) % ranks); };

  Schedule schedule{rank, ranks, shape.elements, {}};
  for (int round = 0; round + 1 < ranks; ++round)
    schedule.rounds.push_back({{StepKind::send, next, slice(round)}, {StepKind::reduce, before, slice(round + 1)}});
  // Now slice rank+1 (one behind is -1) is complete here.
  for (int round = 0; round + 1 < ranks; ++round)
    schedule.rounds.push_back({{StepKind::send, next, slice(round - 1)}, {StepKind::receive, before, slice(round)}});
  return schedule;
}

}  // namespace ddl
