#include "ddl/measure/affinity.h"

#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <memory>

#include "ddl/core/error.h"

namespace ddl {
namespace {

/// Linux has no machines of more (CONFIG_NR_CPUS is 8192 at most).
constexpr int kMostUnits = 8192;

struct FreeSet {
  void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

}  // namespace

std::vector<int> affinity() {
  const std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(kMostUnits));
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostUnits);
  CPU_ZERO_S(bytes, set.get());
  if (::sched_getaffinity(0, bytes, set.get()) != 0) throw system_error("[affinity] the kernel does not say which cores may be used", errno);
  std::vector<int> units;
  for (int unit = 0; unit < kMostUnits; ++unit)
    if (CPU_ISSET_S(static_cast<std::size_t>(unit), bytes, set.get())) units.push_back(unit);
  return units;
}

int set_affinity(const std::vector<int>& units) noexcept {
  const std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(kMostUnits));
  if (!set) return ENOMEM;
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostUnits);
  CPU_ZERO_S(bytes, set.get());
  for (const int unit : units) CPU_SET_S(static_cast<std::size_t>(unit), bytes, set.get());
  return ::sched_setaffinity(0, bytes, set.get()) == 0 ? 0 : errno;
}

}  // namespace ddl
