#pragma once

#include "ddl/measure/clock.h"

namespace ddl {

/// That this process may use.
int available_cores();

/// How long a rank of so many looks for its peer before it sleeps. With a core of its own, some microseconds are cheaper
/// than a sleep and a wake-up (about 5 us on bare metal, 50 in a virtual machine); where ranks outnumber the cores that
/// this process may use, the core is better given away at once.
Nanoseconds spin_for(int ranks);

/// While one is there, what this thread waits for in a transport is all that it has to do: nothing that computes wants its core. It then offers the core to others for a while, looking again each time, before it sleeps: a
/// wake-up would come on top of what it waits for.
class PatientWait {
 public:
  PatientWait() : before_(patient_) { patient_ = true; }
  ~PatientWait() { patient_ = before_; }
  PatientWait(const PatientWait&) = delete;
  PatientWait& operator=(const PatientWait&) = delete;
  static bool here() { return patient_; }

 private:
  static thread_local bool patient_;
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
