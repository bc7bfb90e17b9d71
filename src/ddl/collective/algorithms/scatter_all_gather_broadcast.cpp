#include "ddl/collective/algorithms/algorithms.h"
#include "ddl/core/numbers.h"

namespace ddl {

/// The root scatters its buffer, then all gather it on a ring: no link carries the whole of it more than about twice, so
/// it is the choice for large buffers where the binomial tree sends all of it log2 P times.
/// Shape:   n elements on the root -> n on every rank.
/// Cost:    1 + (P-1) rounds; the root sends 2(P-1)/P * n, the others (P-1)/P * n.
/// Errors:  none.
/// Source:  M. Barnett et al., "Interprocessor collective communication library (InterCom)", 1994; Thakur et al. 2005.
Schedule scatter_all_gather_broadcast(int rank, const CollectiveShape& shape) {
  Schedule schedule = direct_scatter(rank, shape);
  append(schedule, ring_all_gather(rank, shape), first_numbers(shape.ranks), 0);
  return schedule;
}

}  // namespace ddl
