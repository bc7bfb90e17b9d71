#include "ddl/measure/memory.h"

#include <fstream>
#include <vector>

#include <gtest/gtest.h>

namespace ddl {
namespace {

// What a core can use of it, not what all of a machine's have together.
TEST(Memory, KnowsWhatTheLargestCacheHolds) {
  const auto bytes = last_level_cache_bytes();
  if (bytes > 0) {
    EXPECT_GE(bytes, 128 << 10);
    EXPECT_EQ(bytes % 1024, 0);
  }
  std::ifstream size("/sys/devices/system/cpu/cpu0/cache/index2/size");
  if (std::int64_t second = 0; size >> second) {
    EXPECT_GE(bytes, second * 1024);
  }
}

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
