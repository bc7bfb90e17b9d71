#pragma once

#include <atomic>
#include <cstddef>
#include <memory_resource>
#include <mutex>
#include <set>

#include "ddl/plan/plan.h"
#include "ddl/train/device.h"

namespace ddl {

/// Memory of the host that a device reads by itself (Device::pin()), whole pages of it, for as long as it is held: pinning takes milliseconds, so it is for
/// what is used again and again. Memory that cannot be pinned is given all the same. Threads: any, so that of the device pin() and unpin() are called by loaders' too. The device outlives it.
class PinnedMemory final : public std::pmr::memory_resource {
 public:
  explicit PinnedMemory(Device& device) : device_(device) {}

  /// Whether some of it could not be pinned. Threads: any.
  bool refused() const { return refused_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  Device& device_;
  std::mutex mutex_;
  std::atomic<bool> refused_ = false;
  std::set<void*> pinned_;
};

/// Whether a step holds its batch until the device is through with it, so that uploads may read it where it lies: steps that wait for their own work, of a
/// worker that has its batches to itself.
bool reads_batches_in_place(const Plan& plan, const Device& device);

}  // namespace ddl
