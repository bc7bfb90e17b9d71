#include "ddl/transport/shm_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace ddl {
namespace {

constexpr std::size_t kHuge = std::size_t{2} << 20;

/// Of the mapping that this address lies in, what of it huge pages have; bytes.
std::size_t in_huge_pages(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream range(line); range >> std::hex >> begin >> dash >> end && dash == '-') inside = begin <= wanted && wanted < end;
    std::string word;
    std::size_t kib = 0;
    if (std::istringstream field(line); inside && field >> word >> kib && word == "ShmemPmdMapped:") return kib << 10;
  }
  return 0;
}

/// Whether this kernel makes huge pages of memory that is shared, for whoever asks.
bool makes_huge_pages() {
  const UniqueFd fd(::memfd_create("huge", MFD_CLOEXEC));
  if (::ftruncate(fd.get(), kHuge) != 0) return false;
  auto* const room = ::mmap(nullptr, 2 * kHuge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return false;
  // Only what lies alike in the file and in memory can be one.
  auto* const aligned = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(room) + kHuge - 1) / kHuge * kHuge);
  auto* const at = ::mmap(aligned, kHuge, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd.get(), 0);
  bool can = at != MAP_FAILED;
  if (can) {
    std::fill_n(static_cast<char*>(at), kHuge, 'a');
    can = ::madvise(at, kHuge, 25) == 0;
  }
  ::munmap(room, 2 * kHuge);
  return can;
}

TEST(ShmArena, LargeBlocksHaveHugePagesAndAreZeroed) {
  ShmArena arena(0);
  const auto small = arena.allocate(1000), large = arena.allocate(3 * kHuge + kHuge / 4), next = arena.allocate(kHuge + kHuge / 2);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % kHuge, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(next.data()) % kHuge, 0U);
  const auto all_zero = [](std::span<std::byte> bytes) { return std::all_of(bytes.begin(), bytes.end(), [](std::byte each) { return each == std::byte{0}; }); };
  for (const auto bytes : {small, large, next}) EXPECT_TRUE(all_zero(bytes));
  std::fill(small.begin(), small.end(), std::byte{1});
  std::fill(large.begin(), large.end(), std::byte{2});
  // What comes later makes no page of what is there anew.
  const auto last = arena.allocate(kHuge);
  EXPECT_TRUE(all_zero(last));
  EXPECT_EQ(std::count(small.begin(), small.end(), std::byte{1}), static_cast<std::ptrdiff_t>(small.size()));
  EXPECT_EQ(std::count(large.begin(), large.end(), std::byte{2}), static_cast<std::ptrdiff_t>(large.size()));
  if (!makes_huge_pages()) GTEST_SKIP() << "this kernel makes no huge pages of shared memory";
  // Three of `large`, both of `next`, half of whose last one is wanted, and `last`; fewer where memory is in pieces.
  const auto huge = in_huge_pages(large.data());
  EXPECT_GE(huge, kHuge);
  EXPECT_LE(huge, 6 * kHuge);
}

TEST(ShmArena, WhoMapsItSeesTheSameBytes) {
  ShmArena arena(0);
  const auto bytes = arena.allocate(kHuge + 100);
  const ShmArena theirs(1, ::getpid(), arena.fd(), arena.capacity());
  bytes[kHuge + 7] = std::byte{42};
  EXPECT_EQ(theirs.base()[*arena.offset_of(bytes) + kHuge + 7], std::byte{42});
  EXPECT_FALSE(theirs.offset_of(bytes).has_value());
}

}  // namespace
}  // namespace ddl
