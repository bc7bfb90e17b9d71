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

// What was measured before is what drift and what is usual are told by; which of two profiles comes first does not matter.
TEST(MergeMachines, BothHistoriesAndWhatTheDeviceHas) {
  const auto remembered = [](const char* measured, double ms, const char* build) { return Json{{"measured", measured}, {"build", build}, {"pass_ms", ms}}; };
  const auto with = [&](const char* measured, double ms, Json history) {
    auto made = entry(8, measured, ms);
    made["history"] = std::move(history);
    return made;
  };
  auto ours = machine(), theirs = machine();
  ours["compute"] = Json::array({with("2026-11-20", 1, Json::array({remembered("2026-11-18", 3, "a"), remembered("2026-11-20", 1, "a")}))});
  theirs["compute"] = Json::array({with("2026-11-21", 2, Json::array({remembered("2026-11-17", 9, "old"), remembered("2026-11-19", 4, "a"), remembered("2026-11-21", 2, "a")}))});
  theirs["device"] = {{"memory_bytes", 1 << 30}, {"cache_bytes", 1 << 25}};
  auto other_way = theirs;
  EXPECT_EQ(merge_machine(other_way, ours), 0) << "the later is there already";
  EXPECT_EQ(merge_machine(ours, theirs), 1);
  EXPECT_EQ(ours["device"]["cache_bytes"], 1 << 25);
  // Those of an earlier build say nothing of this one's.
  EXPECT_EQ(ours["compute"], Json::array({with("2026-11-21", 2, Json::array({remembered("2026-11-18", 3, "a"), remembered("2026-11-19", 4, "a"), remembered("2026-11-20", 1, "a"), remembered("2026-11-21", 2, "a")}))}));
  ASSERT_EQ(other_way["compute"].size(), 1U);
  EXPECT_EQ(other_way["compute"][0]["pass_ms"], 2);
  EXPECT_EQ(other_way, ours);
  const auto before = ours;
  EXPECT_EQ(merge_machine(ours, theirs), 0);
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
  auto nobody = machine();
  nobody.erase("cpu");
  auto of_nobody = nobody;
  EXPECT_THROW(merge_machine(of_nobody, nobody), Error) << "nobody knows that they are the same";
  auto broken = machine();
  broken["compute"] = Json::array({3});
  EXPECT_THROW(merge_machine(ours, broken), Error);
  EXPECT_THROW(entry_keys("nonsense"), Error);
}

}  // namespace
}  // namespace ddl
