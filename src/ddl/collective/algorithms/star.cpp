#include "ddl/collective/algorithms/algorithms.h"

namespace ddl {

/// A parameter server: the root takes everyone's buffer, one after the other, and gives all of them the sum.
/// Shape:   n elements per rank -> n.
/// Order:   ((in_root + in_(root+1)) + in_(root+2)) + …
/// Cost:    the root receives (P-1)n, reduces as much and sends as much, which is all that counts; the others send and
///          receive n. It shows what the other algorithms are there to avoid.
/// Errors:  none.
/// Source:  M. Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014.
Schedule star_all_reduce(int rank, const CollectiveShape& shape) {
  const Range all{0, shape.elements};
  Schedule schedule{rank, shape.ranks, shape.elements, {}};
  if (rank != shape.root) {
    schedule.rounds.push_back({{StepKind::send, shape.root, all}});
    schedule.rounds.push_back({{StepKind::receive, shape.root, all}});
    return schedule;
  }
  Round give;
  for (int k = 1; k < shape.ranks; ++k) {
    const int peer = (rank + k) % shape.ranks;
    schedule.rounds.push_back({{StepKind::reduce, peer, all}});
    give.push_back({StepKind::send, peer, all});
  }
  if (!give.empty()) schedule.rounds.push_back(give);
  return schedule;
}

}  // namespace ddl
