#include "ddl/transport/cores.h"

#include <sched.h>

namespace ddl {

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

thread_local bool PatientWait::patient_ = false;
std::atomic<Nanoseconds> PatientWait::again_{0};

Nanoseconds spin_for(int ranks) { return ranks <= available_cores() ? 20'000 : 1'000; }

}  // namespace ddl
