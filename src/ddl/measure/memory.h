#pragma once

#include <cstdint>

namespace ddl {

/// A process as the kernel sees it, from /proc/self/status. Bytes.
struct KernelMemory {
  std::int64_t resident = 0;        ///< VmRSS
  std::int64_t peak_resident = 0;   ///< VmHWM since the last reset
  std::int64_t shared = 0;          ///< RssShmem: segments, counted in every process that touched them
};

/// Errors: io where /proc cannot be read.
KernelMemory kernel_memory();

/// Bytes of memory that this machine has.
std::int64_t total_memory();

/// Bytes that the largest of a processor's caches holds, which its cores share; 0 where the kernel does not say.
std::int64_t last_level_cache_bytes();

/// Sets the kernel's high-water mark back to now. False where the kernel does not allow it; the peak then
/// includes start-up.
bool reset_peak_resident();

/// How many processes the kernel has killed on this machine, since it started, for lack of memory; 0 where it does not say.
std::int64_t processes_killed_for_memory();

}  // namespace ddl
