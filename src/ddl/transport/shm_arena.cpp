#include "ddl/transport/shm_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "ddl/core/error.h"
#include "ddl/transport/available_memory.h"

namespace ddl {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;
constexpr std::size_t kMostCapacity = std::size_t{64} << 30;

/// Pages are asked for in runs of this size: few system calls, little waste.
constexpr std::size_t kRun = std::size_t{64} << 10;
/// Who asks for so much has the last huge page as a whole where half of it is wanted anyway.
constexpr std::size_t kLarge = std::size_t{256} << 10, kHalf = kHuge / 2;

/// MADV_COLLAPSE of Linux 6.1, which older C libraries have no name for.
constexpr int kCollapse = 25;

std::size_t up_to(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

std::size_t physical_memory() {
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

ShmArena::ShmArena(int rank) : rank_(rank) {
  // Not sealed to a size: nobody but us has a reason to shrink it, and who can open it can also trace us.
  fd_.reset(::memfd_create("ddlbench", MFD_CLOEXEC));
  if (!fd_.valid()) throw system_error(fmt::format("[shm] rank {} cannot make an arena", rank), errno);
  capacity_ = std::min(up_to(physical_memory(), kHuge), kMostCapacity);
  if (::ftruncate(fd_.get(), static_cast<off_t>(capacity_)) != 0)
    throw system_error(fmt::format("[shm] rank {} cannot size its arena to {} bytes", rank, capacity_), errno);
  map(fd_.get());
}

ShmArena::ShmArena(int rank, pid_t pid, int fd, std::size_t capacity) : rank_(rank), capacity_(capacity) {
  const auto path = fmt::format("/proc/{}/fd/{}", pid, fd);
  const UniqueFd theirs(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!theirs.valid())
    throw system_error(fmt::format("[shm] cannot open {}, the arena of rank {}; expected it on this host, in this "
                                   "process namespace", path, rank), errno);
  map(theirs.get());
}

ShmArena::~ShmArena() {
  if (base_ != nullptr) ::munmap(base_, capacity_);
}

void ShmArena::map(int fd) {
  // Reserve more, then keep an aligned part: an offset that is aligned in one process then is so in all.
  void* reserved = ::mmap(nullptr, capacity_ + kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    throw system_error(fmt::format("[shm] no addresses for the arena of rank {} ({} bytes)", rank_, capacity_), errno);
  const auto begin = reinterpret_cast<std::uintptr_t>(reserved);
  const std::uintptr_t aligned = up_to(begin, kHuge);
  void* mapped = ::mmap(reinterpret_cast<void*>(aligned), capacity_, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    const int number = errno;
    ::munmap(reserved, capacity_ + kHuge);
    throw system_error(fmt::format("[shm] cannot map the arena of rank {} ({} bytes)", rank_, capacity_), number);
  }
  if (aligned != begin) ::munmap(reserved, aligned - begin);
  if (const auto tail = begin + kHuge - aligned; tail != 0)
    ::munmap(reinterpret_cast<void*>(aligned + capacity_), tail);
  base_ = static_cast<std::byte*>(mapped);
  ::madvise(base_, capacity_, MADV_HUGEPAGE);
  ::madvise(base_, capacity_, MADV_DONTDUMP);
}

std::span<std::byte> ShmArena::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t begin = up_to(used_, bytes >= kHuge ? kHuge : 64);
  const auto full = [&](std::size_t left) {
    return Error(Code::io, fmt::format("[shm] rank {}: the machine has no more memory to share; got a request for {} bytes, "
                                       "expected at most {}", rank_, bytes, left));
  };
  if (begin > capacity_ || bytes > capacity_ - begin) throw full(capacity_ - std::min(begin, capacity_));
  const std::size_t end = std::min(up_to(begin + bytes, (begin + bytes) % kHuge >= kHalf && bytes >= kLarge ? kHuge : kRun), capacity_);
  if (end > committed_) {
    const std::size_t from = std::max(committed_, begin / kRun * kRun);
    if (const std::size_t left = available_memory(); end - from > left) throw full(left);
    int failed = 0;
    do {
      failed = ::fallocate(fd_.get(), 0, static_cast<off_t>(from), static_cast<off_t>(end - from));
    } while (failed != 0 && errno == EINTR);
    if (failed != 0 && errno != ENOSPC && errno != ENOMEM)
      throw system_error(fmt::format("[shm] rank {} cannot get {} bytes", rank_, bytes), errno);
    if (failed != 0) throw full(available_memory());
    committed_ = end;
    // Page-table entries now, not at the first collective. Older kernels do not know it: then they come later.
#ifdef MADV_POPULATE_WRITE
    ::madvise(base_ + from, end - from, MADV_POPULATE_WRITE);
#endif
    collapse(from / kHuge * kHuge, end / kHuge * kHuge);
  }
  used_ = begin + bytes;
  return {base_ + begin, bytes};
}

void ShmArena::collapse(std::size_t from, std::size_t end) {
  // Advice alone gives memory that is shared no huge pages unless the machine's owner allows that (shmem_enabled). One after the other: where there are no more, and on older kernels, the rest goes on with small ones.
  for (; collapses_ && from < end; from += kHuge)
    while (::madvise(base_ + from, kHuge, kCollapse) != 0) {
      if (errno == EINTR) continue;
      collapses_ = false;
      break;
    }
}

std::optional<std::uint64_t> ShmArena::offset_of(std::span<const std::byte> data) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(base_);
  const auto first = reinterpret_cast<std::uintptr_t>(data.data());
  if (data.empty()) return 0;
  if (first < begin || first - begin > capacity_ || data.size() > capacity_ - (first - begin)) return std::nullopt;
  return first - begin;
}

}  // namespace ddl
