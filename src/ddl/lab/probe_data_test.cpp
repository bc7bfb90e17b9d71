#include "ddl/lab/probe_data.h"

#include <gtest/gtest.h>

#include "ddl/predict/machine.h"

namespace ddl {
namespace {

TEST(ProbeData, ALoaderIsTimedAndKept) {
  const auto document = probe_loader({{"fashion-mnist", "no-such-data"}, "", true, 8, {0.01}});
  EXPECT_EQ(document.at("state"), "partial");
  ASSERT_EQ(document.at("loader").size(), 1U);
  EXPECT_GT(document.at("loader")[0].at("sample_us").get<double>(), 0);
  EXPECT_EQ(document.at("failed")[0].at("what"), "no-such-data");
  Json machine = {{"schema", "ddlbench.machine/1"}};
  add_data_to_machine(machine, document);
  add_data_to_machine(machine, document);
  ASSERT_EQ(entries(machine, "loader").size(), 1U) << "a later one takes the earlier one's place";
}

TEST(ProbeData, AFolderThatIsNotThereIsTold) {
  const auto document = probe_storage({{"/no/such/folder"}, 1 << 20, {0.01}});
  EXPECT_EQ(document.at("state"), "failed");
  EXPECT_TRUE(document.at("storage").empty());
}

}  // namespace
}  // namespace ddl
