#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// Every rank reduces one slice from all others, then everyone takes all slices from those who reduced them.
/// In round k rank r works with one peer at either side: it takes from r+k and gives to r-k. So no two ranks read the
/// same memory at once, and a slice is never passed on: where peers read each other's memory in place, the inputs of
/// all ranks are read once and only the results are written.
/// Shape:   n elements per rank -> n; n may be 0 or not divisible by P.
/// Order:   slice i is ((in_i + in_(i+1)) + in_(i+2)) + …, wherever it ends up.
/// Cost:    2(P-1) rounds; about 2(P-1)/P * n elements sent per rank, (P-1)/P * n reduced. Every rank talks to every
///          other, so on a network whose links are shared it congests where the ring does not.
/// Errors:  none.
/// Source:  reduce-scatter by pairwise exchange: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective
///          communication operations in MPICH", Int. J. High Perform. Comput. Appl. 19(1), 2005.
Schedule direct_all_reduce(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  const auto slice_of = [&](int owner) { return part_of(shape.elements, ranks, owner); };
  const Range mine = slice_of(rank);

  Schedule schedule{rank, ranks, shape.elements, {}};
  for (int k = 1; k < ranks; ++k) {
    const int from = (rank + k) % ranks;
    const int to = (rank + ranks - k) % ranks;
    schedule.rounds.push_back({{StepKind::send, to, slice_of(to)}, {StepKind::reduce, from, mine}});
  }
  for (int k = 1; k < ranks; ++k) {
    const int from = (rank + k) % ranks;
    const int to = (rank + ranks - k) % ranks;
    schedule.rounds.push_back({{StepKind::send, to, mine}, {StepKind::receive, from, slice_of(from)}});
  }
  return schedule;
}

}  // namespace ddl
