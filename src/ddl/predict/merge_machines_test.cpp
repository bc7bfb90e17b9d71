#include "ddl/predict/merge_machines.h"

#include <gtest/gtest.h>

#include "ddl/core/error.h"
#include "ddl/predict/machine.h"

namespace ddl {
namespace {

Json machine(const char* processor = "Fast 3000") { return new_machine({{"host", "here"}, {"cpu", {{"model", processor}, {"usable_cores", 2}}}}); }
Json entry(int batch, const char* measured, double ms) { return {{"device", "cpu"}, {"network", "lenet"}, {"batch", batch}, {"measured", measured}, {"pass_ms", ms}}; }

TEST(MergeMachines, TheLaterOfTheSameStaysAndTheRestComesIn) {
  auto ours = machine(), theirs = machine();
  ours["compute"] = Json::array({entry(8, "2026-11-20T10:00:00.000Z", 1), entry(16, "2026-11-20T10:00:00.000Z", 2)});
  theirs["compute"] = Json::array({entry(8, "2026-11-19T10:00:00.000Z", 3), entry(16, "2026-11-21T10:00:00.000Z", 4), entry(32, "2026-11-19T10:00:00.000Z", 5)});
  theirs["communication"] = Json::array({{{"transport", "shm"}, {"ranks", 2}, {"memory", "own"}}});
  theirs["device"]["memory_bytes"] = 1 << 30;
  EXPECT_EQ(merge_machine(ours, theirs), 3);
  std::map<int, double> found;
  for (const auto& each : ours["compute"]) found[each["batch"]] = each["pass_ms"];
  EXPECT_EQ(found, (std::map<int, double>{{8, 1}, {16, 4}, {32, 5}}));
  EXPECT_EQ(ours["communication"].size(), 1U);
  EXPECT_EQ(ours["device"]["memory_bytes"], 1 << 30);
  const auto before = ours;
  EXPECT_EQ(merge_machine(ours, theirs), 0) << "a second time brings nothing";
  EXPECT_EQ(ours, before);
}

TEST(MergeMachines, OnlyProfilesOfOneMachine) {
  auto ours = machine();
  try {
    merge_machine(ours, machine("Slow 1"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("Slow 1"), std::string::npos) << error.what();
  }
  auto broken = machine();
  broken["compute"] = Json::array({3});
  EXPECT_THROW(merge_machine(ours, broken), Error);
  EXPECT_THROW(entry_keys("nonsense"), Error);
}

}  // namespace
}  // namespace ddl
