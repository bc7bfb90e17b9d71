#include "ddl/collective/algorithms/algorithms.h"

#include <algorithm>

namespace ddl {

/// Reduce-scatter, then all-gather, on a logical ring: every rank sends to the next and takes from the one before.
/// Slice i starts at rank i as that rank's input. In each round of the first half all slices move one rank on, and the
/// rank that a slice comes to adds it to its own; after P-1 rounds slice i is complete on rank i-1. In the second half
/// the complete slices go round once more and replace what they find.
/// With a segment, slices move in chunks of at most that many elements: what was reduced is sent on while it still lies in
/// the cache, and a rank passes on the first chunk of a slice before it has the last.
/// Shape:   n elements per rank -> n; n may be 0 or not divisible by P.
/// Order:   slice i is in_(i-1) + (… + (in_(i+1) + in_i)), wherever it ends up.
/// Cost:    2(P-1) rounds times the chunks of a slice; about 2(P-1)/P * n elements sent per rank, (P-1)/P * n reduced.
///          Any two rounds use the same two links of a rank, which is what makes it the choice where links, not
///          latencies, are the limit.
/// Errors:  none.
/// Source:  P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations",
///          J. Parallel Distrib. Comput. 69(2), 2009.
Schedule ring_all_reduce(int rank, const CollectiveShape& shape) {
  const int ranks = shape.ranks;
  const int next = (rank + 1) % ranks;
  const int before = (rank + ranks - 1) % ranks;
  const std::size_t longest = part_of(shape.elements, ranks, 0).size();
  const std::size_t most = shape.segment == 0 ? longest : shape.segment;
  const int chunks = most == 0 ? 1 : static_cast<int>(std::max<std::size_t>(1, (longest + most - 1) / most));
  // `back` slices before our own on the ring.
  const auto chunk_of = [&](int back, int chunk) {
    const Range slice = part_of(shape.elements, ranks, ((rank - back) % ranks + 2 * ranks) % ranks);
    const Range part = part_of(slice.size(), chunks, chunk);
    return Range{slice.begin + part.begin, slice.begin + part.end};
  };
  // Move i is chunk i % chunks of hop i / chunks; P-1 hops reduce, then P-1 replace. After the first, slice rank+1 (one
  // behind is -1) is complete here.
  const int moves = 2 * (ranks - 1) * chunks;
  const auto out = [&](int move) {
    const int hop = move / chunks;
    return Step{StepKind::send, next, chunk_of(hop < ranks - 1 ? hop : hop - ranks, move % chunks)};
  };
  const auto in = [&](int move) {
    const int hop = move / chunks;
    return hop < ranks - 1 ? Step{StepKind::reduce, before, chunk_of(hop + 1, move % chunks)}
                           : Step{StepKind::receive, before, chunk_of(hop - ranks + 1, move % chunks)};
  };

  Schedule schedule{rank, ranks, shape.elements, {}};
  // What leaves in a move has come in `chunks` moves before: where the wire holds a chunk, neighbours need not be in step.
  for (int move = 0; move < moves; ++move) schedule.rounds.push_back({out(move), in(move)});
  return schedule;
}

}  // namespace ddl
