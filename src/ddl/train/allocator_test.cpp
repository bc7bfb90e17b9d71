#include "ddl/train/allocator.h"

#include <cstdint>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Allocator, CountsTensorsAndKeepsTheirBlocks) {
  install_allocator(true);
  const auto before = allocator_use();
  void* first = nullptr;
  {
    const auto tensor = at::empty({1 << 20});
    first = tensor.data_ptr();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
    const auto held = allocator_use().current - before.current;
    EXPECT_EQ(held, (4 << 20) + 64) << "of a power of two nothing is waste";
    const auto odd = at::empty({(4 << 20) + 1}, at::kByte);
    EXPECT_LE(allocator_use().current - before.current - held, (4 << 20) * 9 / 8 + 64);
  }
  EXPECT_EQ(allocator_use().current, before.current);
  EXPECT_GE(allocator_use().peak, before.current + (4 << 20));
  EXPECT_EQ(at::empty({1 << 20}).data_ptr(), first);
  reset_allocator_peak();
  EXPECT_EQ(allocator_use().peak, allocator_use().current);
}

// Workers that are threads of one process: whose a tensor is is told by who made it, not by who lets it go.
TEST(Allocator, CountsForEachThreadWhatItAskedFor) {
  install_allocator(true);
  constexpr std::int64_t kEach = (4 << 20) + 64;
  const auto whole = allocator_use();
  at::Tensor handed;
  AllocatorUse first, second;
  std::thread([&] {
    open_allocator_account(7);
    reset_allocator_peak();
    const auto before = allocator_use();
    handed = at::empty({1 << 20});
    const auto freed = at::empty({1 << 20});
    first = allocator_use();
    first.current -= before.current;
    first.peak -= before.peak;
  }).join();
  EXPECT_EQ(first.current, 2 * kEach);
  EXPECT_EQ(first.peak, 2 * kEach);
  EXPECT_EQ(allocator_use().current - whole.current, kEach) << "who has no account sees the process";
  std::thread([&] {
    open_allocator_account(8);
    reset_allocator_peak();
    const auto before = allocator_use();
    handed.reset();
    second = allocator_use();
    second.current -= before.current;
    second.peak -= before.peak;
  }).join();
  EXPECT_EQ(second.current, 0);
  EXPECT_EQ(second.peak, 0);
  EXPECT_EQ(allocator_use().current, whole.current);
  std::thread([&] {
    open_allocator_account(7);
    EXPECT_EQ(allocator_use().peak, 2 * kEach) << "an account is there as long as the process";
    EXPECT_EQ(allocator_use().current, 0);
  }).join();
}

TEST(Allocator, TellsWhatItHoldsOfTheSystem) {
  install_allocator(true);
  constexpr std::int64_t kSize = (5 << 20) + 64;  // none of the other tests'
  const auto before = allocator_use().held;
  { const auto tensor = at::empty({5 << 20}, at::kByte); }
  EXPECT_EQ(allocator_use().held, before + kSize) << "kept for the next";
  {
    const auto again = at::empty({5 << 20}, at::kByte);
    EXPECT_EQ(allocator_use().held, before + kSize);
    const auto another = at::empty({5 << 20}, at::kByte);
    EXPECT_EQ(allocator_use().held, before + 2 * kSize);
    install_allocator(false);
  }
  EXPECT_EQ(allocator_use().held, before) << "without a cache it is given back";
  install_allocator(true);
}

TEST(Allocator, ServesEverySize) {
  install_allocator(true);
  for (std::int64_t bytes = 0; bytes < 70'000; bytes += bytes / 7 + 1) {
    auto tensor = at::full({bytes}, 7, at::kByte);
    EXPECT_EQ(tensor.sum().item<std::int64_t>(), 7 * bytes);
  }
}

}  // namespace
}  // namespace ddl
