#include "ddl/collective/prepare.h"

#include <algorithm>

namespace ddl {
namespace {

/// A set of addresses.
class Ranges {
 public:
  explicit Ranges(Range range) {
    if (range.size() != 0) parts_.push_back(range);
  }
  void remove(Range range) {
    std::vector<Range> left;
    for (const Range part : parts_) {
      if (part.begin < std::min(range.begin, part.end)) left.push_back({part.begin, std::min(range.begin, part.end)});
      if (std::max(range.end, part.begin) < part.end) left.push_back({std::max(range.end, part.begin), part.end});
    }
    parts_ = std::move(left);
  }
  Extent of(Range range) const {
    std::size_t held = 0;
    for (const Range part : parts_) {
      const std::size_t begin = std::max(part.begin, range.begin), end = std::min(part.end, range.end);
      held += begin < end ? end - begin : 0;
    }
    return held == 0 ? Extent::none : held == range.size() ? Extent::whole : Extent::partly;
  }
  const std::vector<Range>& parts() const { return parts_; }

 private:
  std::vector<Range> parts_;
};

Range result_of(const Schedule& schedule, Goal goal, int root) {
  switch (goal) {
    case Goal::reduce: return schedule.rank == root ? Range{0, schedule.elements} : Range{};
    case Goal::reduce_scatter: return part_of(schedule.elements, schedule.ranks, schedule.rank);
    default: return {0, schedule.elements};
  }
}

bool writes(StepKind kind) { return kind != StepKind::send; }

/// Walks backwards: what no later step writes is final.
void find_finals(Prepared& prepared, Range result) {
  Ranges open(result);
  const auto& rounds = prepared.schedule.rounds;
  for (std::size_t round = rounds.size(); round-- > 0;) {
    for (std::size_t i = 0; i < rounds[round].size(); ++i) {
      const auto& step = rounds[round][i];
      if (step.kind == StepKind::reduce || step.kind == StepKind::combine) prepared.facts[round][i].final = open.of(step.range);
    }
    for (const auto& step : rounds[round])
      if (writes(step.kind)) open.remove(step.range);
  }
}

/// Walks forwards: what no step has written is raw.
void find_raw(Prepared& prepared, Range result) {
  const auto& schedule = prepared.schedule;
  Ranges raw({0, schedule.elements});
  for (std::size_t round = 0; round < schedule.rounds.size(); ++round) {
    for (std::size_t i = 0; i < schedule.rounds[round].size(); ++i) {
      const auto& step = schedule.rounds[round][i];
      prepared.facts[round][i].raw = raw.of(step.range);
    }
    for (const auto& step : schedule.rounds[round])
      if (writes(step.kind)) raw.remove(step.range);
  }
  for (const Range part : raw.parts()) {
    const Range both{std::max(part.begin, result.begin), std::min(part.end, result.end)};
    if (both.begin < both.end) prepared.untouched.push_back(both);
  }
}

std::optional<OneShot> find_one_shot(const Schedule& schedule) {
  const auto others = static_cast<std::size_t>(schedule.ranks - 1);
  if (others == 0 || schedule.rounds.size() != 2 * others) return std::nullopt;
  OneShot shot{part_of(schedule.elements, schedule.ranks, schedule.rank), {schedule.rank}};
  const auto slice = [&](int rank) { return part_of(schedule.elements, schedule.ranks, rank); };
  for (std::size_t i = 0; i < others; ++i) {
    const Round& first = schedule.rounds[i];
    const Round& second = schedule.rounds[others + i];
    if (first.size() != 2 || second.size() != 2) return std::nullopt;
    if (first[0] != Step{StepKind::send, first[0].peer, slice(first[0].peer)} ||
        first[1] != Step{StepKind::reduce, first[1].peer, shot.mine} ||
        second[0] != Step{StepKind::send, second[0].peer, shot.mine} ||
        second[1] != Step{StepKind::receive, second[1].peer, slice(second[1].peer)})
      return std::nullopt;
    shot.order.push_back(first[1].peer);
  }
  return shot;
}

}  // namespace

Prepared prepare(Schedule schedule, Goal goal, int root) {
  Prepared prepared;
  prepared.schedule = std::move(schedule);
  for (const auto& round : prepared.schedule.rounds) {
    prepared.facts.emplace_back(round.size());
    for (const auto& step : round)
      if (is_message(step.kind)) (step.kind == StepKind::send ? prepared.sent : prepared.received) += step.range.size();
  }
  if (!reduces(goal)) return prepared;
  const Range result = result_of(prepared.schedule, goal, root);
  find_finals(prepared, result);
  find_raw(prepared, result);
  if (goal == Goal::all_reduce) prepared.one_shot = find_one_shot(prepared.schedule);
  return prepared;
}

}  // namespace ddl
