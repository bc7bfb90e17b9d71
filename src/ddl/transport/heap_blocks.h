#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

namespace ddl {

/// Zeroed, aligned memory of this process, freed together: Transport::allocate() where nothing is shared.
class HeapBlocks {
 public:
  HeapBlocks() = default;
  ~HeapBlocks();
  HeapBlocks(const HeapBlocks&) = delete;
  HeapBlocks& operator=(const HeapBlocks&) = delete;

  /// Aligned to 64 bytes, to 2 MiB from that size on. Errors: io. Threads: any.
  std::span<std::byte> allocate(std::size_t bytes);
  /// Whether all of it lies in one of them. Threads: any.
  bool hold(std::span<const std::byte> data) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::span<std::byte>> blocks_;
};

}  // namespace ddl
