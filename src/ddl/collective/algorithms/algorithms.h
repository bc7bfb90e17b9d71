#pragma once

#include <vector>

#include "ddl/plan/schedule.h"

namespace ddl {

// One file each; what they do, cost and come from is said there. n is the buffer's elements, P the ranks.

Schedule ring_all_reduce(int rank, const CollectiveShape& shape);
Schedule direct_all_reduce(int rank, const CollectiveShape& shape);
Schedule recursive_doubling_all_reduce(int rank, const CollectiveShape& shape);
Schedule halving_doubling_all_reduce(int rank, const CollectiveShape& shape);
Schedule tree_all_reduce(int rank, const CollectiveShape& shape);
Schedule double_tree_all_reduce(int rank, const CollectiveShape& shape);
Schedule star_all_reduce(int rank, const CollectiveShape& shape);
/// In every host by `scatter` and `gather`, between hosts by `between`.
Algorithm hierarchical_all_reduce(Algorithm scatter, Algorithm between, Algorithm gather);

Schedule binomial_broadcast(int rank, const CollectiveShape& shape);
Schedule scatter_all_gather_broadcast(int rank, const CollectiveShape& shape);
Schedule binomial_reduce(int rank, const CollectiveShape& shape);
Schedule ring_reduce_scatter(int rank, const CollectiveShape& shape);
Schedule direct_reduce_scatter(int rank, const CollectiveShape& shape);
Schedule ring_all_gather(int rank, const CollectiveShape& shape);
Schedule direct_all_gather(int rank, const CollectiveShape& shape);
Schedule direct_all_to_all(int rank, const CollectiveShape& shape);
Schedule direct_gather(int rank, const CollectiveShape& shape);
Schedule direct_scatter(int rank, const CollectiveShape& shape);
Schedule dissemination_barrier(int rank, const CollectiveShape& shape);
Schedule send_receive(int rank, const CollectiveShape& shape);

// What several of them are made of.

/// `range` cut into the fewest parts of at most `most` elements, of nearly equal size; at least one part.
std::vector<Range> cut(Range range, std::size_t most);

/// The largest power of two that is at most P, and how a group of another size becomes one of that many: of the first
/// 2 * `extra` ranks the even ones give their buffer to the odd ones, sit the algorithm out, and get the result.
struct PowerOfTwo {
  explicit PowerOfTwo(int ranks);
  int size = 1;
  int extra = 0;
  /// Its number among `size`; kNobody for one that sits out.
  int number_of(int rank) const;
  int rank_of(int number) const;
  /// The round before and the round after, where this rank has one. Both on all elements.
  void fold(Schedule& schedule) const;
  void unfold(Schedule& schedule) const;
};

}  // namespace ddl
