#include "ddl/core/json.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

namespace fs = std::filesystem;

class WriteFile : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  fs::path folder_ = fs::temp_directory_path() / ("ddl-json-" + std::to_string(::getpid()));
};

TEST_F(WriteFile, ReplacesAFileAndLeavesNothingElse) {
  write_file(at("a"), "old");
  write_file(at("a"), "new");
  EXPECT_EQ(read_file(at("a")), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(WriteFile, KeepsTheOldOneWhenItFails) {
  write_file(at("a"), "old");
  EXPECT_THROW(write_file(at("no/such/folder"), "x"), Error);
  EXPECT_EQ(read_file(at("a")), "old");
}

TEST_F(WriteFile, FollowsALink) {
  write_file(at("target"), "old");
  fs::create_symlink("target", at("link"));
  write_file(at("link"), "new");
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_EQ(read_file(at("target")), "new");
  fs::create_symlink("absent", at("dangling"));
  write_file(at("dangling"), "made");
  EXPECT_EQ(read_file(at("absent")), "made");
}

TEST_F(WriteFile, WritesToAPipeAndLeavesItOne) {
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_file(at("pipe")); });
  write_file(at("pipe"), "through");
  reader.join();
  EXPECT_EQ(got, "through");
  EXPECT_TRUE(fs::is_fifo(at("pipe")));
}

TEST_F(WriteFile, LeavesADeviceAlone) {
  struct stat before {}, after {};
  ASSERT_EQ(::stat("/dev/null", &before), 0);
  write_file("/dev/null", "gone");
  ASSERT_EQ(::stat("/dev/null", &after), 0);
  EXPECT_TRUE(S_ISCHR(after.st_mode) && before.st_ino == after.st_ino);
  try {
    write_file("/dev/full", std::string(100'000, 'x'));
    FAIL() << "a full device took it";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::io) << error.what();
  }
}

}  // namespace
}  // namespace ddl
