#pragma once

#include <algorithm>
#include <vector>

#include "ddl/core/units.h"
#include "ddl/measure/clock.h"

namespace ddl {

/// Who waits for whom, as far as those who wait have said so of late. A rank that does not come makes others wait, who
/// make others wait: what all of them want to know is who is at the beginning.
/// A rank that is stopped, computes or is stuck elsewhere says nothing.
class WaitChain {
 public:
  /// How often those who wait say so.
  static constexpr Nanoseconds kPeriod = 100'000'000;

  explicit WaitChain(int ranks) : said_(static_cast<std::size_t>(ranks)) {}

  void hear(int rank, int awaits) { said_[static_cast<std::size_t>(rank)] = {awaits, now()}; }

  /// Those of `late` after `timeout`; in place of one that waits itself, the one it waits for.
  std::vector<int> culprits(std::vector<int> late, Seconds timeout) const {
    const auto recent = static_cast<Nanoseconds>(std::min(timeout.value / 2, 1.0) * 1e9);
    // Too short to tell who is silent.
    if (recent < 2 * kPeriod) return late;
    for (int& rank : late)
      // Schedules do not wait in circles. If somebody says so nevertheless, what this rank has seen itself counts.
      if (const int first = beginning(rank, now() - recent, nullptr); first >= 0) rank = first;
    return late;
  }

  /// Where all wait in a circle, which ranks at different things do: those in it, and on the way to it.
  std::vector<int> circle(const std::vector<int>& late, Seconds timeout) const {
    std::vector<int> met;
    const auto since = now() - static_cast<Nanoseconds>(std::min(timeout.value / 2, 1.0) * 1e9);
    if (late.empty() || beginning(late.front(), since, &met) >= 0) met.clear();
    return met;
  }

 private:
  struct Said {
    int awaits = -1;
    Nanoseconds when = 0;
  };

  /// Negative where there is none.
  int beginning(int rank, Nanoseconds since, std::vector<int>* met) const {
    for (std::size_t steps = 0; steps < said_.size(); ++steps) {
      const auto& said = said_[static_cast<std::size_t>(rank)];
      const bool waits = said.when >= since && said.awaits >= 0 && static_cast<std::size_t>(said.awaits) < said_.size();
      if (!waits) return rank;
      if (met != nullptr) met->push_back(rank);
      rank = said.awaits;
    }
    return -1;
  }

  std::vector<Said> said_;
};

}  // namespace ddl
