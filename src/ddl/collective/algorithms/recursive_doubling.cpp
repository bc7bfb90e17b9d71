#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// In round k pairs of ranks whose numbers differ in bit k exchange all that they have and add it up: after log2 P
/// rounds everyone has everything. The fewest rounds there are, so the choice for small messages.
/// Shape:   n elements per rank -> n, and n of scratch: what comes in must not change what goes out.
/// Order:   a balanced binary tree over the ranks; the same on all, since a+b = b+a.
/// Cost:    log2 P rounds of n elements, each sent and reduced; two rounds more where P is no power of two.
/// Errors:  none.
/// Source:  R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH",
///          Int. J. High Perform. Comput. Appl. 19(1), 2005.
Schedule recursive_doubling_all_reduce(int rank, const CollectiveShape& shape) {
  const PowerOfTwo group(shape.ranks);
  const std::size_t n = shape.elements;
  Schedule schedule{rank, shape.ranks, n, {}, group.size > 1 ? n : 0};
  group.fold(schedule);
  const int number = group.number_of(rank);
  for (int bit = 1; number != kNobody && bit < group.size; bit *= 2) {
    const int peer = group.rank_of(number ^ bit);
    schedule.rounds.push_back({{StepKind::send, peer, {0, n}}, {StepKind::receive, peer, {n, 2 * n}}});
    schedule.rounds.push_back({{StepKind::combine, kNobody, {0, n}, n}});
  }
  group.unfold(schedule);
  return schedule;
}

}  // namespace ddl
