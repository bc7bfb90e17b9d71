#include "ddl/lab/measured_choices.h"

#include <gtest/gtest.h>

#include "ddl/predict/machine.h"
#include "ddl/train/make_communicator.h"

namespace ddl {
namespace {

Json profile_of(const std::vector<int>& ranks) {
  auto profile = new_machine(Json::object());
  for (const int each : ranks) {
    CommunicationPart part{"tcp", each};
    part.best = Json::array({{{"collective", "all-reduce"}, {"from_bytes", 0}, {"to_bytes", 1000}, {"algorithm", "tree"}}, {{"collective", "all-reduce"}, {"from_bytes", 1000}, {"to_bytes", 1 << 30}, {"algorithm", each == 2 ? "star" : "halving-doubling"}}});
    add(profile, part);
  }
  return profile;
}

TEST(MeasuredChoices, AreOfGroupsOfNoMoreThanSoManyWorkers) {
  const auto choices = measured_choices(profile_of({2, 3, 4}), "tcp", 4);
  // Three of four, too: replicas of one stage where another has one worker.
  ASSERT_EQ(choices.size(), 6U);
  EXPECT_EQ(measured_choices(profile_of({2, 3, 4}), "tcp", 3).size(), 4U);
  EXPECT_TRUE(measured_choices(profile_of({2}), "shm", 4).empty());
}

TEST(MeasuredChoices, EachGroupFollowsWhatWasMeasuredOfAsManyRanks) {
  Job job;
  job.measured = measured_choices(profile_of({2, 4}), "tcp", 8);
  EXPECT_EQ(automatic_algorithm(job, Goal::all_reduce, 5000, 2, false), "star");
  EXPECT_EQ(automatic_algorithm(job, Goal::all_reduce, 5000, 4, false), "halving-doubling");
  EXPECT_EQ(automatic_algorithm(job, Goal::all_reduce, 500, 4, false), "tree");
  // Nothing was measured of eight, nor is anything but an all-reduce followed.
  EXPECT_EQ(automatic_algorithm(job, Goal::all_reduce, 1 << 20, 8, false), "ring");
  EXPECT_EQ(automatic_algorithm(job, Goal::all_gather, 5000, 2, false), default_algorithm(Goal::all_gather, 5000, 2, false));
}

}  // namespace
}  // namespace ddl
