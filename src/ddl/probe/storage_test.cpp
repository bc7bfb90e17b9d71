#include "ddl/probe/storage.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "ddl/core/error.h"

namespace ddl {
namespace {

std::size_t files_in(const std::filesystem::path& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
}

TEST(Storage, IsReadAndLeftAsItWas) {
  const auto folder = std::filesystem::temp_directory_path() / "ddlbench-storage-test";
  std::filesystem::create_directories(folder);
  const auto times = measure_storage(folder, 32 << 20, {0.05});
  EXPECT_GT(times.bytes_per_s, 1e5);
  EXPECT_GT(times.read_seconds, 0);
  EXPECT_LT(times.read_seconds, 1);
  EXPECT_GE(times.resident, 0);
  EXPECT_LE(times.resident, 1);
  EXPECT_EQ(files_in(folder), 0U);
  std::filesystem::remove_all(folder);
}

TEST(Storage, MemoryIsToldFromStorage) {
  if (!std::filesystem::exists("/dev/shm")) GTEST_SKIP() << "no /dev/shm";
  EXPECT_GT(measure_storage("/dev/shm", 4 << 20, {0.01}).resident, 0.9) << "what lies in memory cannot be forgotten";
}

TEST(Storage, SaysWhatIsWrongWithAFolder) {
  try {
    measure_storage("/no/such/folder", 32 << 20, {0.05});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::io);
    EXPECT_NE(std::string(error.what()).find("/no/such/folder"), std::string::npos);
  }
  EXPECT_THROW(measure_storage(".", 1000, {0.05}), Error);
}

}  // namespace
}  // namespace ddl
