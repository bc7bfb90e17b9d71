#pragma once

#include <atomic>

#include "ddl/measure/clock.h"

namespace ddl {

/// That this process may use.
int available_cores();

/// How long a rank of so many looks for its peer before it sleeps. With a core of its own, some microseconds are cheaper
/// than a sleep and a wake-up (about 5 us on bare metal, 50 in a virtual machine); where ranks outnumber the cores that
/// this process may use, the core is better given away at once.
Nanoseconds spin_for(int ranks);

/// While one is there, what this thread waits for in a transport is all that it has to do: nothing that computes wants its core. It then offers the core to others for a while, looking again each time, before it sleeps: a
/// wake-up would come on top of what it waits for. Where others take the core, it comes back after a turn of theirs, some milliseconds, and a sleeper is woken sooner than that: then nobody in this process is patient for a while.
class PatientWait {
 public:
  PatientWait() : before_(patient_) { patient_ = true; }
  ~PatientWait() { patient_ = before_; }
  PatientWait(const PatientWait&) = delete;
  PatientWait& operator=(const PatientWait&) = delete;
  static bool here() { return patient_ && now() >= again_.load(std::memory_order_relaxed); }
  /// What it took until a thread that offered its core had it again.
  static void was_away(Nanoseconds time) {
    if (time > kTurn) again_.store(now() + kSpoilt, std::memory_order_relaxed);
  }

  static constexpr Nanoseconds kTurn = 2'000'000;      ///< longer than threads of this process are at work when a collective waits for them, shorter than what Linux gives a thread at once
  static constexpr Nanoseconds kSpoilt = 200'000'000;  ///< of which a turn of others, by which it is found out again, is 2 %

 private:
  static thread_local bool patient_;
  static std::atomic<Nanoseconds> again_;
  bool before_;
};

/// How long a core is offered to others before its thread sleeps. A yield is a microsecond, a sleep and a wake-up in a virtual machine fifty.
inline constexpr Nanoseconds kOfferCore = 300'000;

/// What a processor does between two looks.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace ddl
