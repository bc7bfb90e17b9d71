#include "ddl/measure/gpus.h"

#include <link.h>

#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

namespace ddl {
namespace {

Gpus with(const char* fake, Seconds patience = {20}) {
  ::setenv("FAKE_GPUS", fake, 1);
  const char* moved = std::getenv("DDL_FAKE_DRIVER");  // bench/gpu.py takes it to other machines
  return find_gpus(moved != nullptr ? moved : DDL_FAKE_DRIVER, patience);
}

bool this_process_has(std::string_view library) {
  std::pair<std::string_view, bool> search{library, false};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* given) {
        auto& [name, found] = *static_cast<std::pair<std::string_view, bool>*>(given);
        found |= std::string_view(info->dlpi_name).find(name) != std::string_view::npos;
        return 0;
      },
      &search);
  return search.second;
}

TEST(Gpus, AreWhatTheDriverSays) {
  const auto gpus = with("2");
  EXPECT_EQ(gpus.missing, "");
  EXPECT_EQ(gpus.driver, "12.4");
  ASSERT_EQ(gpus.all.size(), 2U);
  EXPECT_EQ(gpus.all[0].product, "Fake GPU 0");
  EXPECT_EQ(gpus.all[1].memory.value, std::int64_t{2} << 30);
  EXPECT_FALSE(gpus.all[0].has_tf32()) << "compute capability 7.5";
  EXPECT_TRUE(gpus.all[1].has_tf32()) << "8.5";
}

// A process that has initialised CUDA cannot fork workers that use it.
TEST(Gpus, AreAskedForByAnotherProcess) {
  EXPECT_EQ(with("1").all.size(), 1U);
  EXPECT_FALSE(this_process_has("fake_driver"));
  known_gpus();
  EXPECT_FALSE(this_process_has("libcuda.so"));
}

TEST(Gpus, AreMissingWithAReason) {
  EXPECT_NE(find_gpus("libddl-no-such-driver.so.1").missing.find("no NVIDIA driver is here (libddl-no-such-driver.so.1: cannot open"), std::string::npos);
  EXPECT_NE(with("0").missing.find("knows of no GPU"), std::string::npos);
  EXPECT_EQ(with("broken").missing, "the NVIDIA driver does not start: unknown error (error 999)");
  EXPECT_NE(with("crashes").missing.find("ended the process"), std::string::npos);
  EXPECT_NE(with("hangs", {0.2}).missing.find("did not answer within 200"), std::string::npos) << with("hangs", {0.2}).missing;
  for (const auto* fake : {"0", "broken", "crashes"}) EXPECT_TRUE(with(fake).all.empty()) << fake;
}

}  // namespace
}  // namespace ddl
