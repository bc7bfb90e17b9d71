#include "ddl/report/disturbance.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

Json rank(int number, Json stolen) { return {{"rank", number}, {"cores", {{"own_share", 0.4}, {"busy_share", 0.8}, {"stolen_share", std::move(stolen)}}}}; }

TEST(Disturbance, OfTheMachineThatLostMost) {
  const Json record{{"ranks", Json::array({rank(0, 0.03), rank(1, 0.142)})}};
  EXPECT_EQ(disturbance_sentence(record), "disturbed: the hypervisor gave 14 % of the time of rank 1's machine to others while this ran; another run will tell other figures");
}

TEST(Disturbance, IsNotTalkedOfWhereThereIsLittleOrNothingIsKnown) {
  EXPECT_EQ(disturbance_sentence({{"ranks", Json::array({rank(0, 0.01)})}}), "");
  EXPECT_EQ(disturbance_sentence({{"ranks", Json::array({rank(0, nullptr)})}}), "");
  EXPECT_EQ(disturbance_sentence({{"ranks", Json::array({{{"rank", 0}, {"cores", nullptr}}})}}), "");
  EXPECT_EQ(disturbance_sentence({{"ranks", Json::array({{{"rank", 0}}})}}), "");
  EXPECT_EQ(disturbance_sentence(Json::object()), "");
}

}  // namespace
}  // namespace ddl
