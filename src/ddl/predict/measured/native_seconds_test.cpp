#include "ddl/predict/measured/native_seconds.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/predict/machine.h"
#include "ddl/predict/measured/wire_seconds.h"

namespace ddl {
namespace {

/// Of two ranks over mpi: the library's own all-reduce from 64 KiB on.
CommunicationPart part_of_mpi() {
  CommunicationPart part{"mpi", 2};
  part.rounds.pieces = {{0, ~std::size_t{0}, {1e-5, 0, 1e-9}}};
  part.best = Json::array({{{"collective", "all-reduce"}, {"from_bytes", 0}, {"to_bytes", 65536}, {"algorithm", "ring"}},
                           {{"collective", "all-reduce"}, {"from_bytes", 65536}, {"to_bytes", ~std::size_t{0}}, {"algorithm", "native"}}});
  part.native = Json::array({{{"collective", "all-reduce"}, {"algorithm", "native"},
                              {"points", Json::array({{{"bytes", 1024}, {"time_us", 10.0}}, {{"bytes", 1 << 20}, {"time_us", 200.0}}, {{"bytes", 1 << 22}, {"time_us", 1000.0}}})}}});
  return part;
}

Json profile_of_mpi() {
  auto profile = new_machine(Json::object());
  add(profile, part_of_mpi());
  return profile;
}

double seconds_of(const Json& profile, std::int64_t bytes, int ranks = 2, Portion portion = Portion::whole, const WireSetup& setup = {"mpi"}) {
  return wire_seconds(profile, setup, Goal::all_reduce, bytes, ranks, portion);
}

TEST(NativeSeconds, GoAlongWhatWasMeasured) {
  const auto profile = profile_of_mpi();
  EXPECT_NEAR(seconds_of(profile, 1 << 20), 200e-6, 1e-12);
  EXPECT_NEAR(seconds_of(profile, (1 << 20) + 3 * (1 << 19)), 600e-6, 1e-12) << "half way to the next size";
  EXPECT_NEAR(seconds_of(profile, 1 << 23), (1000 + 800 / 3.0 * 4) * 1e-6, 1e-12) << "beyond, along the line through the last two";
  // Below 64 KiB a schedule of ours was faster: two rounds of it and every byte once.
  EXPECT_NEAR(seconds_of(profile, 4096), 2e-5 + 4096 * 1e-9, 1e-12);
  // Who asks for the library's has it at all sizes.
  EXPECT_NEAR(seconds_of(profile, 1024, 2, Portion::whole, {"mpi", "native"}), 10e-6, 1e-12);
  EXPECT_GT(seconds_of(profile, 64, 2, Portion::whole, {"mpi", "native"}), 9e-6) << "a call takes time, whatever it carries";
  // Which is what the other costs, too, of which nothing was timed: it meets nobody before.
  EXPECT_DOUBLE_EQ(seconds_of(profile, 1 << 20, 2, Portion::whole, {"mpi", "native[meet=off]"}), 200e-6);
}

/// Along the line through the first two sizes to none: of 10 us for a KiB and 200 us for a MiB.
constexpr double kCall = (10 - 190.0 / ((1 << 20) - 1024) * 1024) * 1e-6;

TEST(NativeSeconds, WhatIsLeftWhereBytesCostNothingIsAnEmptyBuffers) {
  EXPECT_NEAR(seconds_of(profile_of_mpi(), 1 << 22, 2, Portion::latency), kCall, 1e-12);
  // Of sizes that were all large no whole call counts.
  auto large = profile_of_mpi();
  large["communication"][0]["native"][0]["points"].erase(0);
  EXPECT_LT(seconds_of(large, 1 << 22, 2, Portion::latency), 1e-12);
}

// Memory of layers, of which the library's was not timed: as the transport's own.
TEST(NativeSeconds, OfOtherMemoryThatOfTheTransportIsTaken) {
  auto profile = profile_of_mpi();
  CommunicationPart outside{"mpi", 2, "outside"};
  outside.rounds.pieces = {{0, ~std::size_t{0}, {1e-5, 0, 2e-9}}};
  add(profile, outside);
  EXPECT_NEAR(seconds_of(profile, 1 << 20, 2, Portion::whole, {"mpi", "auto", 0, 0, "outside"}), 200e-6, 1e-12);
}

// Runs follow a profile in all-reduces alone.
TEST(NativeSeconds, OtherCollectivesAreThoseThatRunsTake) {
  auto profile = profile_of_mpi();
  profile["communication"][0]["best"].push_back({{"collective", "all-gather"}, {"from_bytes", 0}, {"to_bytes", ~std::size_t{0}}, {"algorithm", "native"}});
  // Direct between two: a round, in which half of it moves.
  const double direct = wire_seconds(profile, {"mpi"}, Goal::all_gather, 1 << 20, 2);
  EXPECT_NEAR(direct, 1e-5 + (1 << 19) * 1e-9, 1e-9);
  // What is asked for is taken where parts are gathered, too, if it can be.
  EXPECT_DOUBLE_EQ(wire_seconds(profile, {"mpi", "native"}, Goal::all_gather, 1 << 20, 2), direct);
  EXPECT_GT(wire_seconds(profile, {"mpi", "ring"}, Goal::all_gather, 1 << 20, 8), 7e-5) << "seven rounds";
}

// A call in doublings of ranks, bytes by what links carry: 2 (P-1)/P n.
TEST(NativeSeconds, OfMoreRanksThanMeasuredGoByCallsAndBytes) {
  EXPECT_NEAR(seconds_of(profile_of_mpi(), 1 << 22, 8, Portion::whole, {"mpi", "native"}), 3 * kCall + (1000e-6 - kCall) * (7.0 / 8) / (1.0 / 2), 1e-12);
}

TEST(NativeSeconds, OverATestNetworkNoByteIsFasterThanItsWire) {
  const auto profile = profile_of_mpi();
  const auto over = [&](double rate, double latency) { return seconds_of(profile, 1 << 22, 2, Portion::whole, {"mpi", "native", rate, latency}); };
  EXPECT_NEAR(over(1e12, 0), 1000e-6, 1e-12);
  EXPECT_NEAR(over(1e8, 0), (1 << 22) / 1e8, 1e-9);
  EXPECT_NEAR(over(1e12, 1e-3), 2000e-6, 1e-12);
  // Bytes by host are taken to be those of a schedule of ours.
  EXPECT_NEAR(wire_loads(profile, {"mpi", "native"}, Goal::all_reduce, 1 << 22, {0, 1}).busiest(), 1 << 22, 64);
}

TEST(NativeSeconds, WhatWasNotMeasuredIsNamedWithItsProbe) {
  const auto said = [&](const WireSetup& setup, Goal goal, const Json& profile) {
    try {
      wire_seconds(profile, setup, goal, 4096, 2);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::not_found);
      return std::string(error.what());
    }
    return std::string();
  };
  auto without = profile_of_mpi();
  without["communication"][0].erase("native");
  EXPECT_NE(said({"mpi", "native"}, Goal::all_reduce, without).find("all-reduce of algorithm native between 2 ranks over mpi takes was not measured; run ddlbench probe comm --transport 'mpi' --ranks 2"), std::string::npos)
      << "a profile of before they were kept";
  // Where no library has it, no probe would find it.
  auto shared = profile_of_mpi();
  shared["communication"][0]["transport"] = "shm";
  try {
    wire_seconds(shared, {"shm", "native"}, Goal::all_reduce, 4096, 2);
    FAIL() << "shm has no library";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("shm has none"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ddl
