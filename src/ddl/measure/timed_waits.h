#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ddl/measure/clock.h"

namespace ddl {

/// What waits are made of; tests have one of their own.
struct WaitClock {
  std::function<Nanoseconds()> now;
  std::function<void(Nanoseconds due)> wait_until;  ///< returns at `due` or later
  Nanoseconds margin = 0;                           ///< how long it spins at the end of a wait: a shorter one is no sleep at all
};

/// Sleeps by the absolute clock until `margin` before, and spins the rest: a sleeping thread is woken late.
WaitClock sleeping_clock(Nanoseconds margin);
/// How late a sleeping thread of this process is woken here and now, in 19 of 20 cases; at most 200 us. From then on the kernel does not put the calling thread's wake-ups off to bundle them
/// (timer slack, 50 us by default). Takes about 5 ms.
Nanoseconds wake_up_margin();

/// Waits in place of a worker's computation. A piece of work is begun, charged what it takes, and ended: it lasts as long as it was charged.
///
/// One moment is due at a time: the end of all that was charged. What is charged within a piece of work adds to it, however late the thread is by then, so that late wake-ups do not add up; nor do
/// those between two pieces: the next begins when the one before was to end, unless something else was waited for in between, which had its time. A wait much shorter than a wake-up is carried into the next.
/// Threads: one.
class TimedWaits {
 public:
  explicit TimedWaits(WaitClock clock);

  /// Pieces may lie within each other: the outermost counts.
  void begin();
  void charge(double seconds);
  /// Waits for the end of what was charged so far.
  void settle();
  /// The same, of the piece.
  void end();
  /// Something else was waited for just now, so long: what comes after begins now. A few microseconds were no wait.
  void waited(Nanoseconds span);

  struct Report {
    std::int64_t waits = 0;
    double late_median = 0, late_p95 = 0, late_max = 0;  ///< s after what was due
    double compute = 0;                                  ///< s that were charged
    double taken = 0;                                    ///< s that these pieces of work took
  };
  Report report() const;

 private:
  WaitClock clock_;
  Nanoseconds due_ = 0;
  Nanoseconds late_ = 0;     ///< how late the last piece ended for having been woken late
  int depth_ = 0;
  Nanoseconds began_ = 0;
  double charged_ = 0;       ///< s, half a nanosecond or less, that due_ lacks
  double compute_ = 0, taken_ = 0;
  std::int64_t waits_ = 0;
  std::vector<float> lates_;  ///< s, of every stride_-th wait
  std::int64_t stride_ = 1;
  float worst_ = 0;
};

}  // namespace ddl
