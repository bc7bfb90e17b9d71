#include "ddl/predict/price.h"

#include <algorithm>

#include "ddl/core/error.h"

namespace ddl {
namespace {

struct Moment {
  double seconds = 0;
  Counts counts;
  bool known = false;
};

void later(Moment& a, const Moment& b) {
  if (b.seconds > a.seconds) a = {b.seconds, b.counts, a.known};
}

/// Two moments a round: when it is entered, and when its own work is over.
class Pricing {
 public:
  Pricing(const ScheduleGroup& group, const UnitCosts& costs) : group_(group), costs_(costs) {
    for (const auto& rank : group.ranks) {
      worked_.emplace_back(rank.size());
      entered_.emplace_back(rank.size() + 1);
      entered_.back()[0].known = true;
    }
  }

  Price run() {
    // Passes over the ranks until all is known: a round hangs on rounds of others, never in a circle (verify()).
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < group_.ranks.size(); ++rank) moved |= advance(rank);
    }
    Moment last;
    for (const auto& rank : entered_) {
      if (!rank.back().known) throw Error(Code::invalid_argument, "[predict] schedules that wait for each other in a circle");
      later(last, rank.back());
    }
    return {last.seconds, last.counts};
  }

 private:
  Moment& of(std::vector<std::vector<Moment>>& moments, RoundOf where) {
    return moments[static_cast<std::size_t>(where.rank)][static_cast<std::size_t>(where.round)];
  }

  /// As far as it goes.
  bool advance(std::size_t rank) {
    bool moved = false;
    for (auto& at = at_[rank]; at < group_.ranks[rank].size();) {
      const auto& round = group_.ranks[rank][at];
      auto& worked = worked_[rank][at];
      if (!worked.known) {
        Moment begin = entered_[rank][at];
        for (const auto sender : round.from) {
          const auto& offered = of(entered_, sender);
          if (!offered.known) return moved;
          later(begin, offered);
        }
        worked = {begin.seconds + costs_.seconds(round.counts), begin.counts + round.counts, true};
        moved = true;
      }
      Moment end = worked;
      for (const auto taker : round.to) {
        const auto& taken = of(worked_, taker);
        if (!taken.known) return moved;
        later(end, taken);
      }
      entered_[rank][at + 1] = {end.seconds, end.counts, true};
      ++at;
      moved = true;
    }
    return moved;
  }

  const ScheduleGroup& group_;
  const UnitCosts& costs_;
  std::vector<std::vector<Moment>> entered_, worked_;
  std::vector<std::size_t> at_ = std::vector<std::size_t>(group_.ranks.size(), 0);
};

}  // namespace

Price price(const ScheduleGroup& group, const UnitCosts& costs) { return Pricing(group, costs).run(); }

}  // namespace ddl
