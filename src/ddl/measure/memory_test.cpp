#include "ddl/measure/memory.h"

#include <vector>

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Memory, SeesWhatTheProcessTouches) {
  const auto before = kernel_memory();
  std::vector<char> block(64 << 20, 1);
  const auto after = kernel_memory();
  EXPECT_GE(after.resident - before.resident, 60 << 20);
  EXPECT_GE(after.peak_resident, after.resident - (1 << 20));
  EXPECT_EQ(block[12345], 1);
}

}  // namespace
}  // namespace ddl
