#include "ddl/transport/heap_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "ddl/core/error.h"
#include "ddl/transport/available_memory.h"

namespace ddl {

HeapBlocks::~HeapBlocks() {
  for (const auto& block : blocks_) std::free(block.data());
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
  blocks_.push_back({static_cast<std::byte*>(block), bytes});
  // Before the first touch, or the pages are small already.
  if (alignment == kHuge) ::madvise(block, rounded, MADV_HUGEPAGE);
  std::memset(block, 0, bytes);
  return blocks_.back();
}

bool HeapBlocks::hold(std::span<const std::byte> data) const {
  const std::lock_guard lock(mutex_);
  const auto before = [](const std::byte* a, const std::byte* b) { return std::less<>()(a, b); };
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& block) {
    return !before(data.data(), block.data()) && !before(block.data() + block.size(), data.data() + data.size());
  });
}

}  // namespace ddl
