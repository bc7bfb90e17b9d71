#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace ddl {

/// A way to do the job: so many workers, a step's seconds, how far those may be off, and whether they hold it.
struct Rated {
  int workers = 1;
  double seconds = 0;
  double apart = 0;    ///< of the logarithm, where other ways are not off as well: StepInterval::apart
  bool fits = true;
  bool plain = false;  ///< what everybody would begin with: one worker, or plain `data`, with nothing else said
};

/// How many times as long steps of one and the same experiment take from run to run: by less than that no prediction tells ways apart, and the plain one has fewest surprises.
inline constexpr double kAlike = 1.02;

/// Where 90 % of how many times as fast `fast` is as `slow` lies. What both are off alike by, a device that is slower than its datasheet, is in neither.
std::pair<double, double> times_as_fast(const Rated& fast, const Rated& slow);

/// Numbers among what was rated. Two are as fast as each other where the faster one may be no faster: 1 within times_as_fast().
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

/// Whether measured times keep the order that was predicted: no later one's interval (low, high) lies wholly below an earlier one's.
bool order_held(const std::vector<std::pair<double, double>>& measured_in_predicted_order);

}  // namespace ddl
