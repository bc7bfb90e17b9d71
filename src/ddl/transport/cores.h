#pragma once

#include "ddl/measure/clock.h"

namespace ddl {

/// That this process may use.
int available_cores();

/// How long a rank of so many looks for its peer before it sleeps. With a core of its own, some microseconds are cheaper
/// than a sleep and a wake-up (about 5 us on bare metal, 50 in a virtual machine); where ranks outnumber the cores that
/// this process may use, the core is better given away at once.
Nanoseconds spin_for(int ranks);

/// What a processor does between two looks.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace ddl
