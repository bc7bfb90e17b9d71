#include "ddl/predict/advise/search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace ddl {
namespace {

class BestFirst {
 public:
  BestFirst(const std::vector<StrategyFamily>& families, const std::function<std::optional<Worth>(const Candidate&)>& evaluate, const std::function<bool()>& go_on)
      : families_(families), evaluate_(evaluate), go_on_(go_on) {}

  SearchResult run() {
    // First of each family, so that all are known before one is known well.
    std::size_t most = 0;
    std::vector<std::vector<Candidate>> begins;
    for (std::size_t family = 0; family < families_.size(); ++family) {
      begins.push_back(starts(family));
      most = std::max(most, begins.back().size());
    }
    for (std::size_t turn = 0; turn < most; ++turn)
      for (const auto& of_family : begins)
        if (turn < of_family.size()) look(of_family[turn]);
    while (!over_) {
      const auto next = choose();
      if (!next) break;
      expanded_[*next] = true;
      expand(out_.looked[*next].candidate);
    }
    for (const auto& family : families_) out_.not_looked += family.size();
    out_.not_looked -= static_cast<double>(out_.looked.size());
    return std::move(out_);
  }

 private:
  std::vector<Candidate> starts(std::size_t number) const {
    const auto& axes = families_[number].axes;
    Candidate first{number, {}};
    std::vector<Candidate> all;
    for (const auto& axis : axes) {
      if (axis.values.empty()) return {};
      first.at.push_back(axis.starts.front());
    }
    all.push_back(first);
    for (std::size_t axis = 0; axis < axes.size(); ++axis)
      for (std::size_t i = 1; i < axes[axis].starts.size(); ++i) {
        auto other = first;
        other.at[axis] = axes[axis].starts[i];
        all.push_back(std::move(other));
      }
    return all;
  }

  void look(const Candidate& candidate) {
    if (over_ || !seen_.emplace(candidate.family, candidate.at).second) return;
    if (!go_on_()) {
      over_ = true;
      return;
    }
    out_.looked.push_back({candidate, evaluate_(candidate)});
    expanded_.push_back(false);
  }

  void expand(Candidate candidate) {
    const auto& axes = families_[candidate.family].axes;
    for (std::size_t axis = 0; axis < axes.size() && !over_; ++axis) {
      const auto own = candidate.at[axis];
      const auto step = [&](std::size_t value) {
        auto other = candidate;
        other.at[axis] = value;
        look(other);
      };
      if (!axes[axis].near.empty())
        for (const auto value : axes[axis].near.at(own)) step(value);
      else
        for (std::size_t value = 0; value < axes[axis].values.size(); ++value)
          if (value != own) step(value);
    }
  }

  /// Of those that were not gone on from.
  std::optional<std::size_t> choose() {
    std::vector<Worth> worths;
    std::vector<std::size_t> numbers;
    std::optional<std::size_t> fastest, smallest, refused;
    for (std::size_t i = 0; i < out_.looked.size(); ++i) {
      const auto& worth = out_.looked[i].worth;
      if (worth) {
        worths.push_back(*worth);
        numbers.push_back(i);
      }
      if (expanded_[i]) continue;
      if (!worth) {
        if (!refused) refused = i;
      } else if (worth->fits) {
        if (!fastest || worth->seconds < out_.looked[*fastest].worth->seconds) fastest = i;
      } else if (!smallest || worth->bytes < out_.looked[*smallest].worth->bytes) {
        smallest = i;
      }
    }
    if (smallest && (++turn_ % 4 == 0 || !fastest)) return smallest;
    for (const auto number : pareto_front(worths))
      if (!expanded_[numbers[number]]) return numbers[number];
    return fastest ? fastest : refused;
  }

  const std::vector<StrategyFamily>& families_;
  const std::function<std::optional<Worth>(const Candidate&)>& evaluate_;
  const std::function<bool()>& go_on_;
  SearchResult out_;
  std::vector<bool> expanded_;
  std::set<std::pair<std::size_t, std::vector<std::size_t>>> seen_;
  bool over_ = false;
  int turn_ = 0;
};

}  // namespace

SearchResult search(const std::vector<StrategyFamily>& families, const std::function<std::optional<Worth>(const Candidate&)>& evaluate, const std::function<bool()>& go_on) {
  return BestFirst(families, evaluate, go_on).run();
}

std::vector<std::size_t> pareto_front(const std::vector<Worth>& all) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  order.erase(std::remove_if(order.begin(), order.end(), [&](std::size_t i) { return !all[i].fits; }), order.end());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return std::pair(all[a].seconds, all[a].bytes) < std::pair(all[b].seconds, all[b].bytes); });
  std::vector<std::size_t> front;
  double least = std::numeric_limits<double>::infinity();
  for (const auto number : order)
    if (all[number].bytes < least) {
      front.push_back(number);
      least = all[number].bytes;
    }
  return front;
}

}  // namespace ddl
