#include "ddl/strategy/partition/minimax.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "ddl/core/at.h"

namespace ddl {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Of each stage, by the place where it ends.
template <typename T>
using Table = std::vector<std::vector<T>>;

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

namespace {

/// Stages that are all alike, and what can be said of them within a limit.
class Alike {
 public:
  Alike(int places, int stages, const std::function<double(int first, int last)>& cost) : places_(places), stages_(stages), cost_(cost) {}

  /// The last place where each stage can end, each leaving one to every later; shorter where one cannot hold a single place.
  std::vector<int> last_ends(double limit) const {
    std::vector<int> ends;
    for (int stage = 0, first = 0; stage < stages_; ++stage, first = ends.back()) {
      // In doubling strides, then between the last two: stages are short.
      int good = first, bad = places_ - (stages_ - 1 - stage) + 1;
      for (int stride = 1; good + stride < bad; stride *= 2) {
        if (cost_(first, good + stride) > limit)
          bad = good + stride;
        else
          good += stride;
      }
      while (bad - good > 1) {
        const int middle = good + (bad - good) / 2;
        (cost_(first, middle) > limit ? bad : good) = middle;
      }
      if (good == first) return ends;
      ends.push_back(good);
    }
    return ends;
  }

  /// The first place where each stage can begin, each leaving one to every earlier; of a limit that is feasible.
  std::vector<int> first_starts(double limit) const {
    std::vector<int> starts(at(stages_));
    for (int stage = stages_ - 1, last = places_; stage >= 0; last = starts[at(stage)], --stage) {
      int good = last - 1, bad = stage - 1;
      while (good - bad > 1) {
        const int middle = bad + (good - bad) / 2;
        (cost_(middle, last) > limit ? bad : good) = middle;
      }
      starts[at(stage)] = good;
    }
    return starts;
  }

  bool is_feasible(const std::vector<int>& ends) const { return static_cast<int>(ends.size()) == stages_ && ends.back() == places_; }

  double optimum() const {
    // What a split that is there costs is feasible; nothing is below 0.
    if (is_feasible(last_ends(0))) return largest(last_ends(0));
    double infeasible = 0, feasible = cost_(0, places_);
    for (;;) {
      const double middle = infeasible + (feasible - infeasible) / 2;
      if (middle <= infeasible || middle >= feasible) return feasible;
      if (const auto ends = last_ends(middle); is_feasible(ends))
        feasible = largest(ends);
      else
        infeasible = middle;
    }
  }

 private:
  double largest(const std::vector<int>& ends) const {
    double most = 0;
    for (std::size_t stage = 0; stage < ends.size(); ++stage) most = std::max(most, cost_(stage == 0 ? 0 : ends[stage - 1], ends[stage]));
    return most;
  }

  int places_, stages_;
  const std::function<double(int first, int last)>& cost_;
};

}  // namespace

Split minimise_largest_alike(int places, int stages, const std::function<double(int first, int last)>& cost, const std::function<double(int place)>& bytes) {
  const Alike alike(places, stages, cost);
  Split split{std::vector<int>(at(stages), 0), alike.optimum()};
  const double limit = split.largest + 1e-9 * split.largest;
  const auto latest = alike.last_ends(limit), earliest = alike.first_starts(limit);
  const auto first_end = [&](int stage) { return stage + 1 < stages ? earliest[at(stage + 1)] : places; };
  // By end, from the first that the stage may have: what the cuts before carry, and where the stage then begins.
  std::vector<double> carried(at(latest[0] - first_end(0) + 1), 0), sums, of_place;
  for (int place = 0; place < places; ++place) of_place.push_back(place == 0 ? 0 : bytes(place));
  std::vector<std::vector<int>> from(at(stages));
  // Starts of a stage, later ones with larger sums alone: those from `front` to `back` of this memory, which is all that millions of ends cost.
  std::vector<std::pair<int, double>> window(at(places));
  for (int stage = 1; stage < stages; ++stage) {
    const int from_end = first_end(stage - 1), own_end = first_end(stage), ends = latest[at(stage)] - own_end + 1, last_start = latest[at(stage - 1)];
    auto& own = from[at(stage)];
    own.resize(at(ends));
    sums.resize(at(ends));
    std::size_t front = 0, back = 0;
    int next = from_end;
    for (int end = 0; end < ends; ++end) {
      const int last = own_end + end;
      for (; next <= std::min(last_start, last - 1); ++next) {
        const double sum = carried[at(next - from_end)] + of_place[at(next)];
        while (back > front && window[back - 1].second >= sum) --back;
        window[back++] = {next, sum};
      }
      while (back > front && cost(window[front].first, last) > limit) ++front;
      sums[at(end)] = back > front ? window[front].second : kNever;
      own[at(end)] = back > front ? window[front].first : last - 1;
    }
    std::swap(carried, sums);
  }
  for (int stage = stages - 1, last = places; stage > 0; --stage) split.starts[at(stage)] = last = from[at(stage)][at(last - first_end(stage))];
  return split;
}

}  // namespace ddl
