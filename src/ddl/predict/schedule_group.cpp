#include "ddl/predict/schedule_group.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ddl/collective/algorithms.h"
#include "ddl/core/error.h"

namespace ddl {
namespace {

struct Ends {
  std::vector<RoundOf> senders, takers;
};

}  // namespace

ChosenSchedules chosen_schedules(Goal goal, const std::string& algorithm, std::size_t bytes, int ranks, std::size_t element, std::vector<int> hosts) {
  const auto chosen = choose_algorithm(goal, algorithm);
  const auto grain = goal == Goal::all_to_all ? static_cast<std::size_t>(ranks) : 1;
  CollectiveShape shape{ranks, goal == Goal::barrier ? 0 : ((bytes + element - 1) / element + grain - 1) / grain * grain};
  shape.peer = goal == Goal::point_to_point ? 1 : 0;
  shape.segment = chosen.segment_bytes / element;
  shape.hosts = std::move(hosts);
  return {chosen.algorithm, shape};
}

ScheduleGroup group_schedules(const Algorithm& algorithm, const CollectiveShape& shape, std::size_t element) {
  ScheduleGroup group;
  std::map<std::pair<int, int>, Ends> ends;  // by sender and receiver, in the order of their messages
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto schedule = algorithm(rank, shape);
    std::vector<RoundWork> rounds(schedule.rounds.size());
    std::size_t sent_in_all = 0;
    for (std::size_t number = 0; number < rounds.size(); ++number) {
      std::size_t sent = 0, taken = 0, sends = 0, takes = 0, reduced = 0, local = 0;
      for (const auto& step : schedule.rounds[number]) {
        const std::size_t bytes = step.range.size() * element;
        const RoundOf here{rank, static_cast<int>(number), bytes};
        switch (step.kind) {
          case StepKind::send:
            sent += bytes;
            ++sends;
            ends[{rank, step.peer}].senders.push_back(here);
            break;
          case StepKind::reduce: reduced += bytes; [[fallthrough]];
          case StepKind::receive:
            taken += bytes;
            ++takes;
            ends[{step.peer, rank}].takers.push_back(here);
            break;
          case StepKind::copy:
          case StepKind::combine: local += bytes; break;
        }
      }
      rounds[number].counts = {sends + takes > 0 ? 1.0 : 0.0, static_cast<double>(sends + takes),
                               static_cast<double>(std::max(sent, taken)), static_cast<double>(sent + taken), static_cast<double>(reduced), static_cast<double>(local)};
      sent_in_all += sent;
    }
    group.ranks.push_back(std::move(rounds));
    group.bytes_sent.push_back(sent_in_all);
  }
  for (const auto& [between, both] : ends) {
    if (both.senders.size() != both.takers.size())
      throw Error(Code::invalid_argument, fmt::format("[predict] rank {} sends {} messages to rank {}, which takes {}", between.first,
                                                      both.senders.size(), between.second, both.takers.size()));
    for (std::size_t i = 0; i < both.senders.size(); ++i) {
      const auto& [sender, taker] = std::pair(both.senders[i], both.takers[i]);
      group.ranks[static_cast<std::size_t>(sender.rank)][static_cast<std::size_t>(sender.round)].to.push_back(taker);
      group.ranks[static_cast<std::size_t>(taker.rank)][static_cast<std::size_t>(taker.round)].from.push_back(sender);
    }
  }
  return group;
}

Counts one_shot_counts(const CollectiveShape& shape, std::size_t element) {
  const double slice = static_cast<double>(part_of(shape.elements, shape.ranks, 0).size() * element);
  const double others = shape.ranks - 1;
  return {2, 0, 2 * others * slice, 0, others * slice};
}

}  // namespace ddl
