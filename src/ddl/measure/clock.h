#pragma once

#include <cstdint>
#include <ctime>
#include <string>

namespace ddl {

/// Nanoseconds of CLOCK_MONOTONIC: one clock for all processes of a host, never set back, about 20 ns a reading.
using Nanoseconds = std::int64_t;

inline Nanoseconds now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<Nanoseconds>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// The time of day, UTC in ISO 8601, as records and profiles write it: 2026-11-21T10:15:02.123Z.
std::string utc_now();

inline double seconds(Nanoseconds span) { return static_cast<double>(span) * 1e-9; }

}  // namespace ddl
