#pragma once

#include <cstdint>
#include <ctime>

namespace ddl {

/// Nanoseconds of CLOCK_MONOTONIC: one clock for all processes of a host, never set back, about 20 ns a reading.
using Nanoseconds = std::int64_t;

inline Nanoseconds now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

inline double seconds(Nanoseconds span) { return static_cast<double>(span) * 1e-9; }

}  // namespace ddl
