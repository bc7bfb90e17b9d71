#pragma once

#include <limits>

#include "ddl/core/units.h"
#include "ddl/measure/clock.h"

namespace ddl {

/// The moment `timeout` from now; the end of time where that is further away than the clock can count.
inline Nanoseconds deadline_after(Seconds timeout) {
  constexpr double kCentury = 3.2e9;
  if (!(timeout.value < kCentury)) return std::numeric_limits<Nanoseconds>::max();
  return now() + (timeout.value > 0 ? static_cast<Nanoseconds>(timeout.value * 1e9) : 0);
}

/// What is left of it, at least 0.
inline Seconds left_until(Nanoseconds deadline) {
  const Nanoseconds left = deadline - now();
  return {left > 0 ? seconds(left) : 0};
}

}  // namespace ddl
