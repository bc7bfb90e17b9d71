#pragma once

#include <cstdint>

namespace ddl {

/// What LibTorch holds of CPU memory, as its allocator counts it. Bytes.
struct AllocatorUse {
  std::int64_t current = 0;
  std::int64_t peak = 0;  ///< since the last reset_allocator_peak()
  std::int64_t held = 0;  ///< by the whole process, of the system: blocks that wait for the next tensor of their size included
  std::int64_t refused = 0;  ///< the last request that there was no memory for; 0 where there was always enough
};

/// Puts our allocator under every CPU tensor of this process, before the first one that a worker keeps is made; it counts, and with
/// `cache` it keeps freed blocks for the next tensor of that size.
///
/// Why a cache: glibc gives large blocks back to the kernel when they are freed, and each training step then faults
/// every page in again; that costs 10 to 50 % of a step (measured with ResNet-18 and a small CNN on Zen 5).
/// Before it says that there is no memory left (std::bad_alloc) it gives back what it kept.
/// Sizes are rounded up to eight steps per doubling; blocks of 4 MiB and more ask for huge pages.
/// Threads: all of LibTorch's. There is one CPU allocator per process, hence free functions.
void install_allocator(bool cache);

/// What the calling thread allocates from now on has an account of its own, whoever frees it: of workers that are threads of one process each has one, so that what is whose can be
/// told. `account`: a small number from 1 on, of one thread at a time.
void open_allocator_account(int account);

/// By the calling thread's account, where it has opened one; else of the whole process.
AllocatorUse allocator_use();
void reset_allocator_peak();

}  // namespace ddl
