#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ddl {

/// A way to do the job: so many workers, a step's seconds with their interval, and whether they hold it.
struct Rated {
  int workers = 1;
  double seconds = 0, low = 0, high = 0;
  bool fits = true;
  bool plain = false;  ///< what everybody would begin with: one worker, or plain `data`, with nothing else said
};

/// How many times as long steps of one and the same experiment take from run to run: by less than that no prediction tells ways apart, and the plain one has fewest surprises.
inline constexpr double kAlike = 1.02;

/// Numbers among what was rated. Two are as fast as each other where the slower one's seconds are within the faster one's interval.
struct Verdict {
  std::optional<std::size_t> best;    ///< the fastest that fits
  std::optional<std::size_t> alone;   ///< the fastest of one worker; none: no memory of one holds it
  std::optional<std::size_t> pick;    ///< what to take: of what is as fast as the best the fewest workers, and of those the fastest; the plain way where that is predicted to take kAlike of it at most
  std::vector<std::size_t> ties;      ///< as fast as the best with as many workers as the pick, that left out; the fastest first
  /// Whether more than one worker is: not where one is as fast as the best.
  bool worth_it() const;
  int pick_workers = 0, best_workers = 0;
};

Verdict judge(const std::vector<Rated>& all);

/// Whether measured times keep the order that was predicted: no later one's interval lies wholly below an earlier one's.
bool order_held(const std::vector<Rated>& measured_in_predicted_order);

}  // namespace ddl
