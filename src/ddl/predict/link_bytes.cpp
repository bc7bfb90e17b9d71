#include "ddl/predict/link_bytes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ddl/collective/native.h"
#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/occasion.h"
#include "ddl/plan/peers.h"
#include "ddl/predict/schedule_group.h"

namespace ddl {
namespace {

using Bytes = std::map<std::pair<int, int>, double>;  ///< by sender and receiver

/// A library tells nobody how it moves what it moves: as rings would, which is what its bandwidth is told by.
void add_ring(const Task& task, int ranks, double filled, Bytes& out) {
  const double whole = static_cast<double>(task.bytes) * share_of_steps(task) * filled, part = whole / ranks;
  const auto around = [&](int last, double bytes) {
    for (int rank = 0; rank < last; ++rank) out[{rank, (rank + 1) % ranks}] += bytes;
  };
  switch (task.goal) {
    case Goal::all_reduce: return around(ranks, 2 * (ranks - 1) * part);
    case Goal::reduce_scatter:
    case Goal::all_gather: return around(ranks, (ranks - 1) * part);
    case Goal::broadcast:
    case Goal::reduce: return around(ranks - 1, whole);
    case Goal::point_to_point: out[{0, 1}] += whole; return;
    case Goal::gather:
      for (int rank = 1; rank < ranks; ++rank) out[{rank, 0}] += part;
      return;
    case Goal::scatter:
      for (int rank = 1; rank < ranks; ++rank) out[{0, rank}] += part;
      return;
    case Goal::all_to_all:
      for (int from = 0; from < ranks; ++from)
        for (int to = 0; to < ranks; ++to)
          if (from != to) out[{from, to}] += part;
      return;
    case Goal::barrier: return;
  }
}

void add_collective(const Task& task, const std::vector<int>& hosts, int ranks, const CollectiveWays& ways, Bytes& out) {
  const double filled = goes_by_samples(task) ? ways.filled : 1;
  const auto word = ways.algorithm ? ways.algorithm(task, ranks) : "native";
  if (parse_native(task.goal, word)) return add_ring(task, ranks, filled, out);
  const auto element = static_cast<std::size_t>(task.cargo == Cargo::control || task.cargo == Cargo::norms ? 8 : ways.element);
  const auto [algorithm, shape] = chosen_schedules(task.goal, word, static_cast<std::size_t>(task.bytes), ranks, element, hosts);
  const auto group = group_schedules(algorithm, shape, element);
  for (int rank = 0; rank < ranks; ++rank)
    for (const auto& round : group.ranks[at(rank)])
      for (const auto& taken : round.to)
        if (taken.bytes > 0) out[{rank, taken.rank}] += static_cast<double>(taken.bytes) * share_of_steps(task) * filled;
}

class Counting {
 public:
  Counting(const Plan& plan, const CollectiveWays& ways) : plan_(plan), ways_(ways), seen_(plan.groups.size(), std::vector<bool>(at(plan.workers()))) {}

  std::vector<PairBytes> run() {
    for (int number = 0; number < static_cast<int>(plan_.roles.size()); ++number) {
      messages(number);
      collectives(plan_.roles[at(number)]);
    }
    std::vector<PairBytes> out;
    for (const auto& [between, bytes] : all_)
      if (bytes > 0) out.push_back({between.first, between.second, bytes});
    return out;
  }

 private:
  void messages(int number) {
    const auto& role = plan_.roles[at(number)];
    for (const auto& task : role.tasks) {
      if (task.kind != TaskKind::send) continue;
      const double bytes = static_cast<double>(task.bytes) * share_of_steps(task) * (goes_by_samples(task) ? ways_.filled : 1);
      const auto& other = plan_.roles[at(task.peer)];
      const auto send = [&](int from, int to) {
        // A server's own worker reaches it without a message.
        if (to != kNone && to != from) all_[{from, to}] += bytes;
      };
      if (role.count == 1 && other.count > 1)
        for (int w = 0; w < other.count; ++w) send(role.first, other.first + w);
      else
        for (int w = 0; w < role.count; ++w) send(role.first + w, peer_of(plan_, role.first + w, task));
    }
  }

  /// Each group once, with the role of its first member.
  void collectives(const Role& role) {
    std::map<int, std::vector<const Task*>> tasks;  // by group
    for (const auto& task : role.tasks)
      if (task.kind == TaskKind::collective) tasks[task.group].push_back(&task);
    for (const auto& [group, own] : tasks) {
      std::map<std::pair<std::size_t, std::vector<int>>, Bytes> known;  // by ranks and their hosts
      for (int worker = role.first; worker < role.first + role.count; ++worker) {
        if (seen_[at(group)][at(worker)]) continue;
        const auto together = members(plan_.mesh, plan_.groups[at(group)], worker);
        for (const int member : together) seen_[at(group)][at(member)] = true;
        if (together.size() < 2) continue;
        std::vector<int> hosts;
        if (!ways_.hosts.empty())
          for (const int member : together) hosts.push_back(ways_.hosts.at(at(member)));
        auto [place, fresh] = known.try_emplace({together.size(), hosts});
        if (fresh)
          for (const auto* task : own) add_collective(*task, hosts, static_cast<int>(together.size()), ways_, place->second);
        for (const auto& [between, bytes] : place->second) all_[{together[at(between.first)], together[at(between.second)]}] += bytes;
      }
    }
  }

  const Plan& plan_;
  const CollectiveWays& ways_;
  std::vector<std::vector<bool>> seen_;  ///< by group and worker
  Bytes all_;
};

}  // namespace

std::int64_t places_of_share(const Plan& plan, std::int64_t batch) {
  const auto up = [](std::int64_t whole, std::int64_t over) { return (whole + over - 1) / over; };
  const std::int64_t parts = std::max(1, plan.micro_batches);
  return std::max<std::int64_t>(1, parts * up(up(batch, std::max(1, plan.shares())), parts));
}

std::vector<PairBytes> bytes_between(const Plan& plan, const CollectiveWays& ways) { return Counting(plan, ways).run(); }

std::vector<LinkUse> links_of(const std::vector<PairBytes>& pairs, const LinkRates& rates) {
  std::map<int, LinkUse> inside, wires;                  // by place
  std::map<int, std::pair<double, double>> by_worker;    // sent and received inside
  for (const auto& pair : pairs) {
    const int here = rates.places.at(at(pair.from)), there = rates.places.at(at(pair.to));
    if (here == there) {
      inside[here].sent += pair.bytes;
      inside[here].received += pair.bytes;
      by_worker[pair.from].first += pair.bytes;
      by_worker[pair.to].second += pair.bytes;
    } else {
      wires[here].sent += pair.bytes;
      wires[there].received += pair.bytes;
    }
  }
  for (const auto& [worker, ways] : by_worker) {
    auto& busiest = inside[rates.places[at(worker)]].busiest;
    busiest = std::max({busiest, ways.first, ways.second});
  }
  std::vector<LinkUse> out;
  for (auto& [place, use] : inside) {
    use.link = fmt::format("inside {} {}", rates.place, place);
    use.bytes_per_s = rates.inside;
    out.push_back(use);
  }
  for (auto& [place, use] : wires) {
    use.link = fmt::format("wires of {} {}", rates.place, place);
    use.busiest = std::max(use.sent, use.received);
    use.bytes_per_s = rates.wires;
    out.push_back(use);
  }
  return out;
}

}  // namespace ddl
