#include "ddl/train/pinned_memory.h"

#include <algorithm>
#include <memory>
#include <new>
#include <span>

#include <unistd.h>

namespace ddl {
namespace {

std::size_t page() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

/// Pages are pinned whole, and none twice: they belong to one block alone.
std::size_t whole_pages(std::size_t bytes) { return std::max<std::size_t>(1, (bytes + page() - 1) / page()) * page(); }

std::align_val_t aligned(std::size_t alignment) { return std::align_val_t(std::max(alignment, page())); }

}  // namespace

void* PinnedMemory::do_allocate(std::size_t bytes, std::size_t alignment) {
  const auto whole = whole_pages(bytes);
  const auto at = aligned(alignment);
  const auto free = [whole, at](void* memory) { ::operator delete(memory, whole, at); };
  std::unique_ptr<void, decltype(free)> memory(::operator new(whole, at), free);
  const std::lock_guard lock(mutex_);
  const auto known = pinned_.insert(memory.get()).first;
  if (!device_.pin({static_cast<std::byte*>(memory.get()), whole}).empty()) {
    pinned_.erase(known);
    refused_ = true;
  }
  return memory.release();
}

void PinnedMemory::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  const auto whole = whole_pages(bytes);
  bool pinned = false;
  {
    const std::lock_guard lock(mutex_);
    pinned = pinned_.erase(memory) > 0;
  }
  if (pinned) device_.unpin({static_cast<std::byte*>(memory), whole});
  ::operator delete(memory, whole, aligned(alignment));
}

bool reads_batches_in_place(const Plan& plan, const Device& device) { return !device.is_host() && !plan.asynchronous() && !plan.in_process; }

}  // namespace ddl
