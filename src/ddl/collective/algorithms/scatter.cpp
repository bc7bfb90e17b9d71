#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// The root gives every rank its part, all at once.
/// Shape:   n elements on the root -> part r on rank r.
/// Cost:    one round; the root sends (P-1)/P * n, which is what bounds any scatter.
/// Errors:  none.
Schedule direct_scatter(int rank, const CollectiveShape& shape) {
  Schedule schedule{rank, shape.ranks, shape.elements, {}};
  if (shape.ranks == 1) return schedule;
  auto& round = schedule.rounds.emplace_back();
  if (rank != shape.root) round.push_back({StepKind::receive, shape.root, part_of(shape.elements, shape.ranks, rank)});
  for (int owner = 0; rank == shape.root && owner < shape.ranks; ++owner)
    if (owner != rank) round.push_back({StepKind::send, owner, part_of(shape.elements, shape.ranks, owner)});
  return schedule;
}

}  // namespace ddl
