#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "ddl/transport/unique_fd.h"

namespace ddl {

/// An anonymous file that several processes map: it has no name, so nothing is left of it when the last one ends, in
/// whatever way. It is sparse; pages come with allocate().
class ShmArena {
 public:
  /// A new one, of about the machine's memory. Errors: io.
  explicit ShmArena(int rank);
  /// The one that `pid` has open as `fd`. Errors: io.
  ShmArena(int rank, pid_t pid, int fd, std::size_t capacity);
  ~ShmArena();
  ShmArena(const ShmArena&) = delete;
  ShmArena& operator=(const ShmArena&) = delete;

  std::byte* base() const { return base_; }
  std::size_t capacity() const { return capacity_; }
  int fd() const { return fd_.get(); }

  /// The next bytes of an arena of ours: zeroed, aligned to 64 bytes (2 MiB from that size on), with pages behind them,
  /// huge ones where the kernel makes them. Errors: io where the machine has no more. Threads: any.
  std::span<std::byte> allocate(std::size_t bytes);
  /// How far `data` lies from the beginning; nothing where it lies outside.
  std::optional<std::uint64_t> offset_of(std::span<const std::byte> data) const;

 private:
  void map(int fd);
  /// Makes huge pages of small ones, both ends multiples of one.
  void collapse(std::size_t from, std::size_t end);

  int rank_;
  UniqueFd fd_;  // of ours only, since fallocate() wants it
  std::size_t capacity_ = 0;
  std::byte* base_ = nullptr;
  std::mutex mutex_;
  std::size_t used_ = 0;
  std::size_t committed_ = 0;
  bool collapses_ = true;  ///< until the kernel did not
};

}  // namespace ddl
