#include "ddl/report/emulation.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

Json emulated(double compute, double share, double late) {
  return {{"emulation", {{"waits", 20}, {"late_us", {{"median", late / 4}, {"p95", late / 2}, {"max", late}}}, {"compute_ms", compute}, {"late_share", share}}}};
}

TEST(Emulation, IsToldByItsWorstWorker) {
  const Json record{{"ranks", {emulated(12.5, 0.001, 40), emulated(25, 0.004, 100), {{"emulation", nullptr}}}}};
  EXPECT_EQ(emulation_sentence(record),
            "emulated: 2 workers waited 40 times in place of computing, up to 25 ms a step; computing took 0.4 % longer than the profile says at most; waits ended 50 us late (p95), 100 us at most");
}

TEST(Emulation, IsNotToldOfRealWorkers) {
  EXPECT_EQ(emulation_sentence(Json::object()), "");
  EXPECT_EQ(emulation_sentence({{"ranks", Json::array()}}), "");
  EXPECT_EQ(emulation_sentence({{"ranks", {{{"emulation", nullptr}}, {{"rank", 1}}}}}), "");
  EXPECT_EQ(emulation_sentence({{"ranks", {{{"emulation", {{"waits", "many"}}}}}}}), "");
}

}  // namespace
}  // namespace ddl
