#include "ddl/plan/schedule.h"

#include <algorithm>
#include <array>

#include "ddl/core/error.h"
#include "ddl/core/text.h"

namespace ddl {
namespace {

constexpr std::array<std::string_view, 5> kSteps{"send", "receive", "reduce", "copy", "combine"};
constexpr std::array<std::string_view, 10> kGoalNames{"all-reduce",     "broadcast",  "barrier", "reduce",
                                                      "reduce-scatter", "all-gather", "gather",  "scatter",
                                                      "all-to-all",     "point-to-point"};

}  // namespace

std::string_view name(StepKind kind) { return kSteps[static_cast<std::size_t>(kind)]; }
std::string_view name(Goal goal) { return kGoalNames[static_cast<std::size_t>(goal)]; }

Goal goal_from_name(std::string_view word) {
  for (const Goal goal : kGoals)
    if (name(goal) == word) return goal;
  const std::vector<std::string> known(kGoalNames.begin(), kGoalNames.end());
  throw Error(Code::invalid_argument, fmt::format("[collective] unknown collective '{}'{}; expected one of: {}", word,
                                                  did_you_mean(word, known), join(known, " ")));
}

Range part_of(std::size_t elements, int parts, int part) {
  invariant(parts > 0 && part >= 0 && part < parts, "part_of: 0 <= part < parts");
  const auto count = static_cast<std::size_t>(parts);
  const auto index = static_cast<std::size_t>(part);
  const std::size_t least = elements / count;
  const std::size_t longer = elements % count;
  const std::size_t begin = index * least + std::min(index, longer);
  return {begin, begin + least + (index < longer ? 1 : 0)};
}

void append(Schedule& whole, const Schedule& part, const std::vector<int>& members, std::size_t offset) {
  const auto address = [&](std::size_t at, bool scratch) {
    return scratch ? at - part.elements + whole.elements : at + offset;
  };
  for (const auto& round : part.rounds) {
    auto& mine = whole.rounds.emplace_back();
    for (Step step : round) {
      if (is_message(step.kind)) step.peer = members.at(static_cast<std::size_t>(step.peer));
      const bool scratch = step.range.begin >= part.elements && step.range.size() != 0;
      step.range = {address(step.range.begin, scratch), address(step.range.end, scratch)};
      if (!is_message(step.kind)) step.source = address(step.source, step.source >= part.elements);
      mine.push_back(step);
    }
  }
  whole.scratch = std::max(whole.scratch, part.scratch);
}

std::size_t elements_sent(const Schedule& schedule) {
  std::size_t sum = 0;
  for (const auto& round : schedule.rounds)
    for (const auto& step : round) sum += step.kind == StepKind::send ? step.range.size() : 0;
  return sum;
}

}  // namespace ddl
