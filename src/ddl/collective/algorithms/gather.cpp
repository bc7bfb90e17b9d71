#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// The root takes every part from its owner, all at once.
/// Shape:   part r on rank r -> n elements on the root.
/// Cost:    one round; the root receives (P-1)/P * n, which is what bounds any gather.
/// Errors:  none.
Schedule direct_gather(int rank, const CollectiveShape& shape) {
  Schedule schedule{rank, shape.ranks, shape.elements, {}};
  if (shape.ranks == 1) return schedule;
  auto& round = schedule.rounds.emplace_back();
  if (rank != shape.root) round.push_back({StepKind::send, shape.root, part_of(shape.elements, shape.ranks, rank)});
  for (int owner = 0; rank == shape.root && owner < shape.ranks; ++owner)
    if (owner != rank) round.push_back({StepKind::receive, owner, part_of(shape.elements, shape.ranks, owner)});
  return schedule;
}

}  // namespace ddl
