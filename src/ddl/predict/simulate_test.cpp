#include "ddl/predict/simulate.h"

#include <gtest/gtest.h>

#include "ddl/collective/algorithms.h"
#include "ddl/core/error.h"
#include "ddl/predict/price.h"

namespace ddl {
namespace {

constexpr UnitCosts kCosts{5e-6, 1e-6, 1e-9, 2e-10, 4e-10};

ScheduleGroup ring(int ranks, std::size_t elements) { return group_schedules(choose_algorithm(Goal::all_reduce, "ring").algorithm, {ranks, elements}, 4); }

TEST(Simulate, RanksBeyondTheCoresTakeTurns) {
  const auto group = ring(8, 1 << 16);
  const double alone = simulate(group, kCosts, {}).seconds;
  EXPECT_NEAR(simulate(group, kCosts, {8}).seconds, alone, 1e-9 * alone);
  EXPECT_NEAR(simulate(group, kCosts, {4}).seconds, 2 * alone, 1e-9 * alone);
  EXPECT_NEAR(simulate(group, kCosts, {2}).seconds, 4 * alone, 1e-9 * alone);
}

// A star's root works while the others wait: more cores than two are no use, and two lose nothing.
TEST(Simulate, WhoWaitsNeedsNoCore) {
  const auto star = group_schedules(choose_algorithm(Goal::all_reduce, "star").algorithm, {6, 6000}, 4);
  const double alone = simulate(star, kCosts, {}).seconds;
  EXPECT_LT(simulate(star, kCosts, {2}).seconds, 6.0 / 2 * alone * 0.75);
}

// A slow link decides: 2(P-1)/P n at its rate, when every host has one rank.
TEST(Simulate, AHostsLinkBoundsTheRing) {
  const std::size_t elements = 1 << 20;
  SharedMachine machine;
  machine.hosts = {0, 1, 2, 3};
  machine.link = 1e8;
  const double bound = 2.0 * 3 / 4 * static_cast<double>(elements * 4) / machine.link;
  const double took = simulate(ring(4, elements), kCosts, machine).seconds;
  EXPECT_GE(took, bound * (1 - 1e-9));
  EXPECT_LT(took, bound * 1.05);
  machine.hosts = {0, 0, 1, 1};  // neighbours at home do not use it
  EXPECT_LT(simulate(ring(4, elements), kCosts, machine).seconds, took * (1 + 1e-9));
  machine.hosts = {0, 1};
  EXPECT_THROW(simulate(ring(4, elements), kCosts, machine), Error);
}

TEST(Simulate, LeavesASpanForEveryRound) {
  const auto result = simulate(ring(3, 30), kCosts, {});
  EXPECT_EQ(result.spans.size(), 3U * 4U);
  for (const auto& span : result.spans) {
    EXPECT_LE(span.begin, span.end);
    EXPECT_LE(span.end, result.seconds);
  }
}

}  // namespace
}  // namespace ddl
