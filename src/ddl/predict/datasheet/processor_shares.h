#pragma once

#include <utility>
#include <vector>

#include "ddl/core/json.h"

namespace ddl {

/// What layers reach of a processor's datasheet: its profile's `device.efficiency`. A call that at the peak would take microseconds reaches little of it, one that would take milliseconds most,
/// and a convolution by Winograd's algorithm, which multiplies less, more than all.
class ProcessorShares {
 public:
  /// `compute`: one share, or a list of [us that a call would take at the peak, share], ascending; `memory`: of the bandwidth; `call_us`. Errors: not_found, naming a term that is not there; corrupt for a list that is none.
  static ProcessorShares read(const Json& machine);

  /// Of the peak, by a call that would take so many seconds at it: along the list in proportion to the logarithm, level beyond its ends. `convolves`: others multiply all there is.
  double compute(double seconds_at_peak, bool convolves) const;
  double memory() const { return memory_; }
  double call() const { return call_; }  ///< s

 private:
  std::vector<std::pair<double, double>> compute_;  ///< log of seconds, share
  double memory_ = 0, call_ = 0;
};

}  // namespace ddl
