#include "ddl/transport/fabric_description.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"

namespace ddl {
namespace {

std::string failure_of(std::string_view text) {
  try {
    parse_fabric(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "none";
}

TEST(FabricDescription, IsReadWithUnits) {
  const auto description = parse_fabric("hosts=4, bandwidth=1Gbps ,latency=100us");
  EXPECT_EQ(description, (FabricDescription{4, {1e9}, {100e-6}}));
  EXPECT_EQ(parse_fabric("latency=0,hosts=2"), (FabricDescription{2, {0}, {0}}));
  EXPECT_EQ(parse_fabric("hosts=64,bandwidth=unlimited"), (FabricDescription{64, {0}, {0}}));
}

TEST(FabricDescription, ReadsBackWhatItWrites) {
  for (const auto* text : {"hosts=2", "hosts=4,bandwidth=1Gbps,latency=100us", "hosts=3,bandwidth=123456789bps",
                           "hosts=5,latency=33333ns", "hosts=2,bandwidth=2.5Gbps,latency=1ms"}) {
    const auto description = parse_fabric(text);
    EXPECT_EQ(parse_fabric(to_string(description)), description) << to_string(description);
  }
  EXPECT_EQ(to_string(parse_fabric("latency=100us,bandwidth=1Gbps,hosts=4")),
            "hosts=4,bandwidth=1000Mbps,latency=100us");
}

TEST(FabricDescription, BoundsAnAllReduceByPayload) {
  const auto four = parse_fabric("hosts=4,bandwidth=1Gbps,latency=1ms");
  EXPECT_NEAR(payload_bandwidth(four).value, 956.4e6, 0.1e6);
  // 1.5 * 33554432 * 8 bits.
  EXPECT_NEAR(all_reduce_bound(four, {32 << 20}).value, 0.42100, 1e-5);
  EXPECT_EQ(all_reduce_bound(parse_fabric("hosts=2"), {1 << 20}), Seconds{0});
}

TEST(FabricDescription, SaysWhatIsWrong) {
  EXPECT_EQ(
      failure_of("hosts=4,bandwith=1Gbps"),
      "[fabric] unknown key 'bandwith' (did you mean 'bandwidth'?); expected hosts=N,bandwidth=RATE,latency=TIME");
  EXPECT_EQ(failure_of("hosts=1"), "[fabric] hosts; got '1', expected 2 to 64");
  EXPECT_EQ(failure_of("hosts=2x"), "[fabric] hosts; got '2x', expected 2 to 64");
  EXPECT_EQ(failure_of("hosts"), "[fabric] a key without a value; got 'hosts', expected hosts=VALUE");
  EXPECT_EQ(failure_of("hosts=2,hosts=3"), "[fabric] a key given twice; got 'hosts=2,hosts=3', expected each once");
  EXPECT_EQ(failure_of("latency=1ms"), "[fabric] no number of hosts; got 'latency=1ms', expected hosts=N");
  EXPECT_EQ(failure_of("hosts=2,latency=-1ms"), "[fabric] latency; got '-1ms', expected 0s to 10s");
  EXPECT_EQ(failure_of("hosts=2,bandwidth=0"), "[fabric] bandwidth; got '0', expected unlimited or 1Mbps to 100Gbps");
  EXPECT_EQ(failure_of("hosts=2,bandwidth=5"),
            "[units] missing unit of a rate; got '5', expected one of: bps kbps Mbps Gbps Tbps");
  EXPECT_NE(failure_of(""), "none");
}

}  // namespace
}  // namespace ddl
