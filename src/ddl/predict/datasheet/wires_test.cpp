#include "ddl/predict/datasheet/wires.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/predict/datasheet/library.h"

namespace ddl {
namespace {

Wires of(const char* machine, const char* inside, const char* between) { return wires_of(find_machine(machine), inside, between); }

std::string refusal(const char* inside, const char* between) {
  try {
    of("k80", inside, between);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

// As tables write them. GB/s of an all-reduce's bus.
TEST(Wires, InsideANode) {
  for (const auto& [word, expected] : {std::pair("nvlink2", 147.0), {"NVLink-3", 240}, {"nvlink4.0", 360}, {"PCIe Gen3 x16", 10}, {"pcie_gen4", 20}, {"pcie5", 40}, {"300GB/s", 240}, {"400Gbps", 40}, {"12x25GB/s", 240}})
    EXPECT_NEAR(of("cpu-avx512", word, "").bus / 1e9, expected, 0.01) << word;
  // A profile knows its own better than its generation says.
  for (const auto* word : {"", "-", "none", "nvlink4", "NVLink", "NVSwitch"}) EXPECT_EQ(of("gh200", word, "").bus, 0) << word;
  EXPECT_TRUE(of("gh200", "", "").nvlink);
  EXPECT_TRUE(of("k80", "nvlink2", "").nvlink);
  EXPECT_FALSE(of("gh200", "pcie5", "").nvlink);
  EXPECT_EQ(of("k80", "300GB/s", "").notes.size(), 1U);
}

// Gb/s of a node.
TEST(Wires, BetweenNodes) {
  for (const auto& [word, expected] : {std::pair("20Gbps", 20.0), {"2x20Gbps", 40}, {"8x200Gbps", 1600}, {"infiniband-edr", 100}, {"InfiniBand HDR", 200}, {"HDR", 200}, {"ib-ndr", 400}, {"4xEDR", 400}, {"8xinfiniband-ndr", 3200},
                                       {"100GbE", 100}, {"ethernet-25Gbps", 25}, {"roce_100Gb/s", 100},
                                       {"Ethernet 10 Gbit/s", 10}, {"10GigE", 10}, {"40Gb Ethernet", 40}, {"200 Gbps InfiniBand", 200}, {"efa-400Gbps", 400}, {"slingshot-11", 200}, {"25GB/s", 200}, {"1.6Tbps", 1600}})
    EXPECT_NEAR(of("a100-80gb", "", word).network * 8 / 1e9, expected, 1e-6) << word;
  for (const auto* word : {"", "infiniband", "InfiniBand", "ib"}) {
    EXPECT_EQ(of("k80", "", word).network, 0) << word;
    EXPECT_TRUE(of("k80", "", word).notes.empty()) << word;
  }
  EXPECT_EQ(of("a100-80gb", "", "infiniband").notes.size(), 1U);
}

TEST(Wires, OtherWordsAreErrors) {
  EXPECT_NE(refusal("nvlnk2", "").find("link_intra; got 'nvlnk2' (did you mean 'nvlink2'?)"), std::string::npos);
  EXPECT_NE(refusal("nvlink", "").find("link_intra; got 'nvlink'"), std::string::npos) << "which NVLink does a K80 have?";
  EXPECT_NE(refusal("pcie9", "").find("expected one of: nvlink1"), std::string::npos);
  for (const auto* word : {"fast", "100", "8x", "infinband", "-5Gbps", "0Gbps", "infGbps", "100Gbpsx8"}) EXPECT_NE(refusal("", word).find(fmt::format("link_inter; got '{}'", word)), std::string::npos) << word;
  EXPECT_NE(refusal("", "ethernet").find("expected it with its rate, ethernet-25Gbps: the profile's is infiniband-fdr"), std::string::npos);
}

// What a profile says in a word and in a number is the same.
TEST(Wires, ProfilesAgreeWithTheirWords) {
  for (const auto& name : shipped_machines()) {
    const auto machine = find_machine(name);
    const auto word = machine["node"]["network"].get<std::string>();
    EXPECT_NEAR(wires_of(machine, "", word).network / (term(machine, "node.network_bandwidth_per_device") * term(machine, "node.devices")), 1, 0.01) << name << " " << word;
    EXPECT_TRUE(find_stack("wires")["inside"].contains(machine["node"]["link"].get<std::string>())) << name;
  }
}

// A device has its part of its node's wires; what is not used is not told.
TEST(Wires, JoinADevice) {
  const auto machine = find_machine("a100-80gb");
  auto gpu = gpu_of(machine, "fp16");
  const double bus = gpu.bus, network = gpu.network;
  EXPECT_TRUE(join(gpu, wires_of(machine, "nvlink3", "8x200Gbps"), 1024).empty());
  EXPECT_EQ(gpu.bus, bus);
  EXPECT_EQ(gpu.network, network);
  EXPECT_TRUE(join(gpu, wires_of(machine, "pcie4", "100Gbps"), 1).empty());
  EXPECT_EQ(gpu.bus, 20e9);
  EXPECT_EQ(gpu.network, 100e9 / 8 / 8);
  gpu = gpu_of(machine, "fp16");
  EXPECT_EQ(join(gpu, wires_of(machine, "pcie4", "100Gbps"), 8).size(), 1U);
  gpu = gpu_of(machine, "fp16");
  EXPECT_EQ(join(gpu, wires_of(machine, "pcie4", "100Gbps"), 9).size(), 2U);
}

}  // namespace
}  // namespace ddl
