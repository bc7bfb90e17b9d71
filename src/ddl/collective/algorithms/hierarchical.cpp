#include "ddl/collective/algorithms/algorithms.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ddl {
namespace {

std::vector<std::vector<int>> ranks_by_host(const CollectiveShape& shape) {
  std::map<int, std::vector<int>> hosts;
  for (int rank = 0; rank < shape.ranks; ++rank)
    hosts[shape.hosts.empty() ? 0 : shape.hosts.at(static_cast<std::size_t>(rank))].push_back(rank);
  std::vector<std::vector<int>> all;
  for (auto& [host, ranks] : hosts) all.push_back(std::move(ranks));
  return all;
}

int place_in(const std::vector<int>& ranks, int rank) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? kNobody : static_cast<int>(found - ranks.begin());
}

/// `algorithm` among `members` on `range`, as further rounds.
void run_among(Schedule& schedule, const Algorithm& algorithm, const std::vector<int>& members, Range range) {
  if (members.size() == 1) return;
  const CollectiveShape part{static_cast<int>(members.size()), range.size()};
  append(schedule, algorithm(place_in(members, schedule.rank), part), members, range.begin);
}

}  // namespace

/// What stays within a host is cheap, so as little as possible crosses: a reduce-scatter in every host; then the ranks
/// of the same number on all hosts all-reduce their part, so that every one of a host's ranks drives the wire; then an
/// all-gather in every host. Where hosts have different numbers of ranks, the first rank of each speaks for its host.
/// Shape:   n elements per rank -> n; `hosts` names every rank's.
/// Order:   within hosts as `scatter`, then between them as `between`.
/// Cost:    with L ranks on each of H hosts: 2(L-1)/L * n within, n/L by `between` of H; ragged: 2n within per rank, n by
///          `between` of H.
/// Errors:  none.
/// Source:  X. Jia et al., "Highly scalable deep learning training system with mixed-precision", arXiv:1807.11205; the
///          three-step form of 2D-torus all-reduce in H. Mikami et al., arXiv:1811.05233.
Algorithm hierarchical_all_reduce(Algorithm scatter, Algorithm between, Algorithm gather) {
  return [scatter = std::move(scatter), between = std::move(between), gather = std::move(gather)](
             int rank, const CollectiveShape& shape) {
    Schedule schedule{rank, shape.ranks, shape.elements, {}};
    const auto hosts = ranks_by_host(shape);
    const auto& mine = *std::find_if(hosts.begin(), hosts.end(), [&](const auto& ranks) { return place_in(ranks, rank) != kNobody; });
    const int local = place_in(mine, rank);
    const bool even = std::all_of(hosts.begin(), hosts.end(), [&](const auto& ranks) { return ranks.size() == mine.size(); });
    const Range all{0, shape.elements};
    std::vector<int> rail;  // one rank of every host
    for (const auto& ranks : hosts) rail.push_back(ranks[even ? static_cast<std::size_t>(local) : 0]);
    if (even) {
      run_among(schedule, scatter, mine, all);
      run_among(schedule, between, rail, part_of(shape.elements, static_cast<int>(mine.size()), local));
      run_among(schedule, gather, mine, all);
    } else {
      run_among(schedule, binomial_reduce, mine, all);
      if (local == 0) run_among(schedule, between, rail, all);
      run_among(schedule, binomial_broadcast, mine, all);
    }
    return schedule;
  };
}

}  // namespace ddl
