#include "ddl/collective/algorithms/algorithms.h"

#include <algorithm>

namespace ddl {

std::vector<Range> cut(Range range, std::size_t most) {
  const std::size_t parts = most == 0 ? 1 : std::max<std::size_t>(1, (range.size() + most - 1) / most);
  std::vector<Range> all;
  for (std::size_t part = 0; part < parts; ++part) {
    const Range relative = part_of(range.size(), static_cast<int>(parts), static_cast<int>(part));
    all.push_back({range.begin + relative.begin, range.begin + relative.end});
  }
  return all;
}

PowerOfTwo::PowerOfTwo(int ranks) {
  while (size * 2 <= ranks) size *= 2;
  extra = ranks - size;
}

int PowerOfTwo::number_of(int rank) const {
  if (rank >= 2 * extra) return rank - extra;
  return rank % 2 == 0 ? kNobody : rank / 2;
}

int PowerOfTwo::rank_of(int number) const { return number < extra ? 2 * number + 1 : number + extra; }

void PowerOfTwo::fold(Schedule& schedule) const {
  const Range all{0, schedule.elements};
  if (schedule.rank >= 2 * extra) return;
  if (schedule.rank % 2 == 0)
    schedule.rounds.push_back({{StepKind::send, schedule.rank + 1, all}});
  else
    schedule.rounds.push_back({{StepKind::reduce, schedule.rank - 1, all}});
}

void PowerOfTwo::unfold(Schedule& schedule) const {
  const Range all{0, schedule.elements};
  if (schedule.rank >= 2 * extra) return;
  if (schedule.rank % 2 == 0)
    schedule.rounds.push_back({{StepKind::receive, schedule.rank + 1, all}});
  else
    schedule.rounds.push_back({{StepKind::send, schedule.rank - 1, all}});
}

}  // namespace ddl
