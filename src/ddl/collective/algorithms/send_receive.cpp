#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// One message from the root to the peer.
/// Shape:   n elements on the root -> n on the peer.
/// Cost:    one round.
/// Errors:  none.
Schedule send_receive(int rank, const CollectiveShape& shape) {
  Schedule schedule{rank, shape.ranks, shape.elements, {}};
  const Range all{0, shape.elements};
  if (shape.root == shape.peer) return schedule;
  if (rank == shape.root) schedule.rounds.push_back({{StepKind::send, shape.peer, all}});
  if (rank == shape.peer) schedule.rounds.push_back({{StepKind::receive, shape.root, all}});
  return schedule;
}

}  // namespace ddl
