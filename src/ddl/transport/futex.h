#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include "ddl/measure/clock.h"

namespace ddl {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 && std::atomic<std::uint32_t>::is_always_lock_free,
              "a futex is a plain 32-bit word");

/// Sleeps while `word` holds `seen`, at most `most`; may wake for no reason. Works between processes.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, Nanoseconds most) {
  if (most <= 0) return;
  const timespec span{static_cast<std::time_t>(most / 1'000'000'000), static_cast<long>(most % 1'000'000'000)};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &span, nullptr, 0);
}

inline void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace ddl
