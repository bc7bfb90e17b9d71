#include "ddl/strategy/partition/minimax.h"

#include <algorithm>
#include <limits>

namespace ddl {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Of each stage, by the place where it ends.
template <typename T>
using Table = std::vector<std::vector<T>>;

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// Calls visit(stage, last, lowest) for each end that a stage may have, `lowest` the first place where it may begin, so that every stage
/// holds one.
template <typename Visit>
void each_end(int places, int stages, Visit visit) {
  for (int stage = 0; stage < stages; ++stage)
    for (int last = stage + 1; last <= places - (stages - 1 - stage); ++last) visit(stage, last, stage);
}

}  // namespace

Split minimise_largest(int places, int stages, const std::function<StageCost(int stage, int first, int last)>& cost,
                       const std::function<double(int place)>& bytes) {
  Table<double> largest(at(stages), std::vector<double>(at(places + 1), kNever)), carried = largest;
  Table<int> from(at(stages), std::vector<int>(at(places + 1), 0));
  each_end(places, stages, [&](int stage, int last, int lowest) {
    auto& best = largest[at(stage)][at(last)];
    if (stage == 0) {
      best = cost(0, 0, last).cost;
      return;
    }
    for (int first = last - 1; first >= lowest; --first) {
      const auto here = cost(stage, first, last);
      if (here.least >= best) break;
      best = std::min(best, std::max(largest[at(stage - 1)][at(first)], here.cost));
    }
  });

  const double optimum = largest.back().back();
  const double limit = optimum + 1e-9 * optimum;
  each_end(places, stages, [&](int stage, int last, int lowest) {
    auto& best = carried[at(stage)][at(last)];
    if (stage == 0) {
      if (cost(0, 0, last).cost <= limit) best = 0;
      return;
    }
    for (int first = last - 1; first >= lowest; --first) {
      const auto here = cost(stage, first, last);
      if (here.least > limit) break;
      const double sum = carried[at(stage - 1)][at(first)] + bytes(first);
      if (here.cost > limit || sum >= best) continue;
      best = sum;
      from[at(stage)][at(last)] = first;
    }
  });

  Split split{std::vector<int>(at(stages), 0), optimum};
  for (int stage = stages - 1, last = places; stage > 0; --stage) split.starts[at(stage)] = last = from[at(stage)][at(last)];
  return split;
}

}  // namespace ddl
