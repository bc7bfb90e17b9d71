#include "ddl/measure/host_time.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "ddl/measure/clock.h"

namespace ddl {
namespace {

TEST(HostTime, ReadsTheFirstLineOfProcStat) {
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto time = parse_host_time("cpu  100 20 30 400 50 6 7 80 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  ASSERT_TRUE(time);
  EXPECT_DOUBLE_EQ(time->busy, 163 * tick);
  EXPECT_DOUBLE_EQ(time->idle, 450 * tick);
  EXPECT_DOUBLE_EQ(time->stolen, 80 * tick);
  EXPECT_DOUBLE_EQ(time->all(), 693 * tick);
}

TEST(HostTime, OfAKernelThatDoesNotSayIsNothing) {
  EXPECT_FALSE(parse_host_time(""));
  EXPECT_FALSE(parse_host_time("intr 1 2 3 4 5 6 7 8"));
  EXPECT_FALSE(parse_host_time("cpu  100 20 30 400"));
}

TEST(HostTime, GrowsWithWhatRunsHere) {
  const auto before = host_time();
  ASSERT_TRUE(before);
  const double own = own_core_seconds();
  volatile double sum = 0;
  while (own_core_seconds() < own + 0.1) sum = sum + 1;
  const auto after = host_time();
  ASSERT_TRUE(after);
  EXPECT_GE(after->busy - before->busy, 0.05);
  EXPECT_GE(after->idle, before->idle);
  EXPECT_GE(after->stolen, before->stolen);
}

}  // namespace
}  // namespace ddl
