#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// Pairwise exchange: in round k rank r takes its slice of r+k's buffer and gives r-k that one's slice of its own.
/// Shape:   n elements per rank -> part r on rank r.
/// Order:   slice i is ((in_i + in_(i+1)) + in_(i+2)) + …
/// Cost:    P-1 rounds; (P-1)/P * n elements sent and reduced per rank.
/// Errors:  none.
/// Source:  Thakur, Rabenseifner, Gropp 2005, section 4.
Schedule direct_reduce_scatter(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  const auto slice_of = [&](int owner) { return part_of(shape.elements, ranks, owner); };
  Schedule schedule{rank, ranks, shape.elements, {}};
  for (int k = 1; k < ranks; ++k) {
    const int from = (rank + k) % ranks;
    const int to = (rank + ranks - k) % ranks;
    schedule.rounds.push_back({{StepKind::send, to, slice_of(to)}, {StepKind::reduce, from, slice_of(rank)}});
  }
  return schedule;
}

}  // namespace ddl
