#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// Reduce-scatter by recursive halving, then all-gather by recursive doubling. In the first half pairs exchange halves
/// of what they still are responsible for, the far pairs first; in the second half they give back what they have, the
/// near pairs first. As few bytes as a ring in logarithmically many rounds.
/// Shape:   n elements per rank -> n; n may be 0 or not divisible by P.
/// Order:   a balanced binary tree over the ranks, the same for every element.
/// Cost:    2 log2 P rounds; 2(P-1)/P * n elements sent per rank, (P-1)/P * n reduced. Where P is no power of two, two
///          rounds of n more for the ranks that are paired up.
/// Errors:  none.
/// Source:  R. Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Thakur et al. 2005.
Schedule halving_doubling_all_reduce(int rank, const CollectiveShape& shape) {
  const PowerOfTwo group(shape.ranks);
  Schedule schedule{rank, shape.ranks, shape.elements, {}};
  group.fold(schedule);
  if (const int number = group.number_of(rank); number != kNobody) {
    // Parts [first, first + count) of `size` are this rank's to complete.
    const auto parts = [&](int first, int count) {
      return Range{part_of(shape.elements, group.size, first).begin,
                   part_of(shape.elements, group.size, first + count - 1).end};
    };
    int first = 0;
    for (int half = group.size / 2; half > 0; half /= 2) {
      const int peer = group.rank_of(number ^ half);
      const int kept = first + ((number & half) != 0 ? half : 0);
      const int given = first + ((number & half) != 0 ? 0 : half);
      schedule.rounds.push_back({{StepKind::send, peer, parts(given, half)}, {StepKind::reduce, peer, parts(kept, half)}});
      first = kept;
    }
    for (int half = 1; half < group.size; half *= 2) {
      const int peer = group.rank_of(number ^ half);
      const int theirs = first ^ half;
      schedule.rounds.push_back({{StepKind::send, peer, parts(first, half)}, {StepKind::receive, peer, parts(theirs, half)}});
      first &= ~half;
    }
  }
  group.unfold(schedule);
  return schedule;
}

}  // namespace ddl
