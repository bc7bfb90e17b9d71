#include "ddl/train/allocator.h"

#include <cstdint>
#include <vector>

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

TEST(Allocator, ServesEverySize) {
  install_allocator(true);
  for (std::int64_t bytes = 0; bytes < 70'000; bytes += bytes / 7 + 1) {
    auto tensor = at::full({bytes}, 7, at::kByte);
    EXPECT_EQ(tensor.sum().item<std::int64_t>(), 7 * bytes);
  }
}

// Blocks that are cut from one memory lie apart, and go back to their size.
TEST(Allocator, CutsBlocksThatDoNotOverlap) {
  install_allocator(true);
  const auto before = allocator_use();
  for (int round = 0; round < 2; ++round) {
    std::vector<at::Tensor> all;
    for (int i = 0; i < 200; ++i) all.push_back(at::full({40'000 + 3'001 * i}, i, at::kByte));
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(all[static_cast<std::size_t>(i)].eq(i).all().item<bool>()) << i;
    for (int i = 1; i < 200; i += 2) all[static_cast<std::size_t>(i)].reset();
    for (int i = 0; i < 200; i += 2) EXPECT_TRUE(all[static_cast<std::size_t>(i)].eq(i).all().item<bool>()) << i;
  }
  EXPECT_EQ(allocator_use().current, before.current);
}

}  // namespace
}  // namespace ddl
