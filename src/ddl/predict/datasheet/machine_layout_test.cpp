#include "ddl/predict/datasheet/machine_layout.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

Error refused(const std::string& asked) {
  try {
    machine_laid_out(asked);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << asked;
  return {Code::io, ""};
}

TEST(MachineLayout, WithoutOptionsTheProfileAsItIs) {
  EXPECT_EQ(machine_laid_out("v100-32gb"), find_machine("v100-32gb"));
  EXPECT_EQ(machine_laid_out("v100-32gb[]"), find_machine("v100-32gb"));
}

TEST(MachineLayout, NodesAndDevices) {
  const auto own = find_machine("v100-32gb"), machine = machine_laid_out("v100-32gb[nodes=4,devices_per_node=8]");
  EXPECT_EQ(machine["node"]["devices"], 8);
  EXPECT_EQ(machine["node"]["count"], 4);
  EXPECT_EQ(machine["name"], "v100-32gb[nodes=4,devices_per_node=8]");
  // A device keeps the share of the wires that it had.
  for (const auto* term : {"bus_bandwidth", "network_bandwidth_per_device", "link", "network"}) EXPECT_EQ(machine["node"][term], own["node"][term]) << term;
  EXPECT_TRUE(machine["node"]["replaced"].empty());
  EXPECT_EQ(machine["device"], own["device"]);
}

// Of a node, whose devices share it.
TEST(MachineLayout, Wires) {
  const auto machine = machine_laid_out("v100-32gb[devices_per_node=4,link_intra=pcie3,link_inter=100Gbps]");
  EXPECT_DOUBLE_EQ(machine["node"]["network_bandwidth_per_device"], 100e9 / 8 / 4);
  EXPECT_EQ(machine["node"]["network"], "100gbps");
  EXPECT_NEAR(machine["node"]["bus_bandwidth"], 10e9, 1e6);
  EXPECT_EQ(machine["node"]["link"], "pcie3");
  const auto& words = machine["node"]["replaced"];
  ASSERT_EQ(words.size(), 2U);
  EXPECT_EQ(words[0], "wires in a node: 10 GB/s, not the 147 of the profile of v100-32gb");
  EXPECT_EQ(words[1], "wires between nodes, of each device: 3.125 GB/s, not the 6.25 of the profile of v100-32gb");
  // The profile's own words say nothing else.
  EXPECT_TRUE(machine_laid_out("v100-32gb[link_intra=nvlink2,link_inter=8x100Gbps]")["node"]["replaced"].empty());
}

TEST(MachineLayout, Library) {
  const auto machine = machine_laid_out("k80[library=intelmpi]");
  EXPECT_EQ(machine["node"]["library"], "intelmpi");
  ASSERT_EQ(machine["node"]["replaced"].size(), 1U);
  EXPECT_EQ(machine["node"]["replaced"][0], "collectives by intelmpi, not the nccl of the profile of k80");
  EXPECT_TRUE(machine_laid_out("k80[library=nccl]")["node"]["replaced"].empty());
  EXPECT_NE(std::string(refused("k80[library=nccll]").what()).find("did you mean 'nccl'"), std::string::npos);
}

TEST(MachineLayout, Refuses) {
  EXPECT_NE(std::string(refused("v100-32gb[node=4]").what()).find("'nodes'"), std::string::npos);
  for (const auto* number : {"0", "-1", "2.5", "many", "1000001"})
    EXPECT_NE(std::string(refused(fmt::format("v100-32gb[nodes={}]", number)).what()).find(fmt::format("nodes; got '{}', expected a whole number", number)), std::string::npos) << number;
  EXPECT_NE(std::string(refused("v100-32gb[link_inter=nothing]").what()).find("link_inter; got 'nothing'"), std::string::npos);
  EXPECT_EQ(refused("v100-32gx[nodes=4]").code(), Code::not_found);
  EXPECT_EQ(refused("v100-32gb[nodes=4").code(), Code::invalid_argument);
}

}  // namespace
}  // namespace ddl
