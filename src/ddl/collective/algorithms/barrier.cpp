#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// Dissemination: in round k a rank tells the one 2^k further on that it has come, and hears from the one 2^k before.
/// After round k it knows of the 2^(k+1) ranks up to itself, so after ceil(log2 P) rounds of all.
/// Shape:   empty messages, whatever n is.
/// Cost:    ceil(log2 P) rounds of one message each way.
/// Errors:  none.
/// Source:  D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", Int. J. Parallel
///          Programming 17(1), 1988.
Schedule dissemination_barrier(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  Schedule schedule{rank, ranks, shape.elements, {}};
  for (int distance = 1; distance < ranks; distance *= 2)
    schedule.rounds.push_back({{StepKind::send, (rank + distance) % ranks, {}},
                               {StepKind::receive, (rank + ranks - distance) % ranks, {}}});
  return schedule;
}

}  // namespace ddl
