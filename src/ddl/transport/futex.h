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

/// Whether light_barrier() of a sleeper makes up for the fence that a poster leaves out. Registers this process for it, the
/// first time. Where one process of a group says no, its own posts are heavy, and nobody else needs to know: the barrier is
/// the sleeper's, the fence the poster's, and a poster that leaves its fence out must be registered.
bool light_posts();
/// Every thread that runs in a registered process passes a full memory barrier before this returns.
void light_barrier();

/// Stores, so that a later load of `asleep` is not done before it (invariant 5 of the mailboxes).
template <typename T>
inline void post(std::atomic<T>& word, T value, bool light) {
  if (light) {
    word.store(value, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    word.store(value);
  }
}

}  // namespace ddl
