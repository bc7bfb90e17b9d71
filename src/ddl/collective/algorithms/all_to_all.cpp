#include "ddl/collective/algorithms/algorithms.h"

#include "ddl/core/error.h"

namespace ddl {

/// Pairwise exchange: in round k rank r gives r-k its part r-k and takes from r+k what goes to part r+k. It comes into
/// scratch, since the part that it replaces may still have to leave.
/// Shape:   n elements per rank, n divisible by P -> part q of rank r is what was part r of rank q; n of scratch.
/// Cost:    P-1 rounds of n/P elements each way, and one copy of (P-1)/P * n.
/// Errors:  invalid_argument where P does not divide n.
/// Source:  Thakur, Rabenseifner, Gropp 2005, section 4 (all-to-all, long messages).
Schedule direct_all_to_all(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  const std::size_t n = shape.elements;
  if (n % static_cast<std::size_t>(ranks) != 0)
    throw Error(Code::invalid_argument, fmt::format("[all-to-all] ranks exchange parts of one size; got {} elements, expected a "
                                                    "multiple of {}", n, ranks));
  Schedule schedule{rank, ranks, n, {}, ranks > 1 ? n : 0};
  Round settle;
  for (int k = 1; k < ranks; ++k) {
    const int from = (rank + k) % ranks;
    const int to = (rank + ranks - k) % ranks;
    const Range into = part_of(n, ranks, from);
    schedule.rounds.push_back({{StepKind::send, to, part_of(n, ranks, to)},
                               {StepKind::receive, from, {n + into.begin, n + into.end}}});
    settle.push_back({StepKind::copy, kNobody, into, n + into.begin});
  }
  if (!settle.empty()) schedule.rounds.push_back(settle);
  return schedule;
}

}  // namespace ddl
