#include "ddl/transport/heap_blocks.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "ddl/core/error.h"
#include "ddl/transport/available_memory.h"

namespace ddl {

HeapBlocks::~HeapBlocks() {
  for (void* block : blocks_) std::free(block);
}

std::span<std::byte> HeapBlocks::allocate(std::size_t bytes) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= kHuge ? kHuge : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  // A length that wraps around is one that no machine has.
  const bool possible = rounded >= bytes && (bytes < kHuge || rounded <= available_memory());
  void* block = possible ? std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded) : nullptr;
  if (block == nullptr)
    throw Error(Code::io, fmt::format("[allocate] the machine has no more memory; got a request for {} bytes", bytes));
  const std::lock_guard lock(mutex_);
  blocks_.push_back(block);
  // Before the first touch, or the pages are small already.
  if (alignment == kHuge) ::madvise(block, rounded, MADV_HUGEPAGE);
  std::memset(block, 0, bytes);
  return {static_cast<std::byte*>(block), bytes};
}

}  // namespace ddl
