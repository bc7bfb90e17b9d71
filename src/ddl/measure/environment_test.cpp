#include "ddl/measure/environment.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace ddl {
namespace {

TEST(Environment, HasEveryKey) {
  const auto capture = capture_environment();
  for (const auto* key : {"host", "os", "cpu", "memory", "cgroup", "aslr", "load", "variables", "time"})
    EXPECT_TRUE(capture.contains(key)) << key;
  for (const auto* key : {"kernel", "distribution", "libc"}) EXPECT_TRUE(capture["os"].contains(key)) << key;
  for (const auto* key : {"model", "logical_cores", "usable_cores", "topology", "governor", "isa", "mhz"})
    EXPECT_TRUE(capture["cpu"].contains(key)) << key;
  for (const auto* key : {"total_bytes", "available_bytes", "transparent_huge_pages", "numa_nodes"})
    EXPECT_TRUE(capture["memory"].contains(key)) << key;
  for (const auto* key : {"cpu_cores", "memory_limit_bytes"}) EXPECT_TRUE(capture["cgroup"].contains(key)) << key;
  EXPECT_GE(capture["cpu"]["usable_cores"].get<int>(), 1);
  EXPECT_GT(capture["memory"]["total_bytes"].get<std::int64_t>(), 1 << 20);
  EXPECT_EQ(capture["load"].size(), 3U);
  EXPECT_EQ(capture["time"].get<std::string>().size(), 24U);
}

TEST(Environment, KeepsWhatMattersAndNoSecret) {
  ::setenv("OMP_DDL_TEST", "3", 1);
  ::setenv("SLURM_JWT", "hidden", 1);
  ::setenv("TORCH_HUB_TOKEN", "hidden", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "hidden", 1);
  const auto capture = capture_environment();
  EXPECT_EQ(capture["variables"]["OMP_DDL_TEST"], "3");
  EXPECT_EQ(capture.dump().find("hidden"), std::string::npos);
  for (const auto* name : {"OMP_DDL_TEST", "SLURM_JWT", "TORCH_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY"}) ::unsetenv(name);
}

Json made_up(double load, std::int64_t available, Json mhz, const char* governor) {
  return {{"cpu", {{"usable_cores", 4}, {"mhz", std::move(mhz)}, {"governor", governor}}},
          {"memory", {{"total_bytes", 16LL << 30}, {"available_bytes", available}}},
          {"load", {load, 0.0, 0.0}}};
}

TEST(Environment, SaysWhatMoved) {
  const auto calm = made_up(0.1, 8LL << 30, 3000, "performance");
  EXPECT_TRUE(environment_drift(calm, calm).empty());
  EXPECT_TRUE(environment_drift(calm, made_up(3.9, 8LL << 30, 2900, "performance")).empty());
  const auto moved = environment_drift(calm, made_up(7.5, 2LL << 30, 2000, "powersave"));
  ASSERT_EQ(moved.size(), 4U);
  EXPECT_EQ(moved[0], "load rose from 0.10 to 7.50 on 4 usable cores: something else ran too");
  EXPECT_EQ(moved[1], "available memory fell from 8.00 GiB to 2.00 GiB");
  EXPECT_EQ(moved[2], "CPU frequency fell from 3000 MHz to 2000 MHz");
  EXPECT_EQ(moved[3], "CPU governor changed from \"performance\" to \"powersave\"");
}

TEST(Environment, ComparesOnlyWhatBothKnow) {
  EXPECT_TRUE(environment_drift(Json::object(), Json::object()).empty());
  EXPECT_TRUE(environment_drift(nullptr, made_up(9, 0, 1, "x")).empty());
  EXPECT_TRUE(environment_drift(made_up(0, 8LL << 30, nullptr, "x"), made_up(0, 8LL << 30, 2000, "x")).empty());
}

}  // namespace
}  // namespace ddl
