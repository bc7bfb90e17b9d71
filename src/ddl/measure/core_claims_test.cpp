#include "ddl/measure/core_claims.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/measure/affinity.h"

namespace ddl {
namespace {

class CoreClaimsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string made = (std::filesystem::temp_directory_path() / "ddlbench-cores-XXXXXX").string();
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    folder_ = made;
    for (int unit = 0; unit < 4; ++unit) std::filesystem::create_directory(folder_ / ("cpu" + std::to_string(unit)));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(CoreClaimsTest, AreOfOneAtATimeAndAllOrNone) {
  CoreClaims second(folder_), third(folder_);
  {
    CoreClaims first(folder_);
    EXPECT_EQ(first.claim({1, 2}), std::nullopt);
    EXPECT_EQ(second.claim({0, 2}), 2);
    EXPECT_EQ(third.claim({0, 3}), std::nullopt) << "who did not get all has none";
  }
  EXPECT_EQ(second.claim({1, 2}), std::nullopt);
}

TEST_F(CoreClaimsTest, AreGoneWithTheirProcess) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const auto child = ::fork();
  if (child == 0) {
    CoreClaims own(folder_);
    const char got = own.claim({0}) ? 'n' : 'y';
    if (::write(pipe[1], &got, 1) == 1) ::pause();
    ::_exit(1);
  }
  char got = 0;
  ASSERT_EQ(::read(pipe[0], &got, 1), 1);
  EXPECT_EQ(got, 'y');
  CoreClaims ours(folder_);
  EXPECT_EQ(ours.claim({0}), 0);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(ours.claim({0}), std::nullopt);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(CoreClaimsTest, SaysWhereThereIsNothingToLock) {
  CoreClaims claims(folder_);
  try {
    claims.claim({0, 7});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unsupported);
    EXPECT_NE(std::string(error.what()).find("cpu7"), std::string::npos) << error.what();
  }
  EXPECT_EQ(CoreClaims(folder_).claim({0}), std::nullopt) << "what failed holds nothing";
}

// Whether somebody has it, another run of a test say, or not: it can be asked.
TEST(CoreClaims, AreOfThisMachinesUnits) {
  const int unit = affinity().front();
  CoreClaims first, second;
  const auto taken = first.claim({unit});
  EXPECT_EQ(second.claim({unit}), unit) << (taken ? "another's" : "ours");
}

}  // namespace
}  // namespace ddl
