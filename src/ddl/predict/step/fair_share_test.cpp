#include "ddl/predict/step/fair_share.h"

#include <gtest/gtest.h>

#include <random>

namespace ddl {
namespace {

/// When each is over, by number; all begin at 0.
std::vector<double> ends(const std::vector<std::pair<double, std::vector<Demand>>>& all, std::size_t resources) {
  FairShare shares(resources);
  for (const auto& [seconds, demands] : all) shares.start(seconds, demands, 0);
  std::vector<double> out(all.size());
  while (const auto next = shares.next()) {
    out[next->second] = next->first;
    shares.finish(next->second, next->first);
  }
  return out;
}

TEST(FairShare, WhatSharesNothingTakesWhatItTakesAlone) {
  EXPECT_EQ(ends({{2, {{0, 1}}}, {3, {{1, 1}}}, {5, {}}}, 2), (std::vector<double>{2, 3, 5}));
}

// Two on one link at half the rate; once the shorter is over the other has all.
TEST(FairShare, ALinkIsSharedEvenly) {
  const auto out = ends({{1, {{0, 1}}}, {2, {{0, 1}}}}, 1);
  EXPECT_DOUBLE_EQ(out[0], 2);
  EXPECT_DOUBLE_EQ(out[1], 3);
}

// What cannot use its part leaves it to the others: one with half a link beside two on another slows nobody.
TEST(FairShare, NobodyIsSlowedByWhatIsNotWanted) {
  const auto out = ends({{1, {{0, 0.5}}}, {1, {{0, 0.5}}}, {1, {{1, 1}}}, {1, {{1, 1}, {0, 0.01}}}}, 2);
  EXPECT_NEAR(out[0], 1, 0.02);
  EXPECT_NEAR(out[2], 2, 1e-9);
  EXPECT_NEAR(out[3], 2, 1e-9);
}

// Three flows over two links (Bertsekas & Gallager 1992, example of section 6.5.2): the long one and its two neighbours have half each, if both links are full.
TEST(FairShare, ALongPathHasWhatItsScarcestLinkGives) {
  const auto out = ends({{1, {{0, 1}, {1, 1}}}, {1, {{0, 1}}}, {1, {{1, 1}}}, {1, {{1, 1}}}}, 2);
  // Link 1 has three: a third each; then link 0 leaves two thirds to its second flow.
  EXPECT_NEAR(out[1], 1.5, 1e-9);
  EXPECT_NEAR(out[2], 3, 1e-9);
  EXPECT_NEAR(out[0], 3, 1e-9);
}

// Whatever comes and goes, no resource gives more than it has, and all work is done.
// Three workers of one role and one of another, who read one storage: what stands for three has three quarters of it, and both are through at once.
TEST(FairShare, WhatStandsForSeveralHasTheirShares) {
  const auto both = ends({{1, {{0, 3}}}, {1, {{0, 1}}}}, 1);
  EXPECT_NEAR(both[0], 4, 1e-9);
  EXPECT_NEAR(both[1], 4, 1e-9);
  EXPECT_NEAR(ends({std::pair<double, std::vector<Demand>>{1, {{0, 3}}}}, 1)[0], 3, 1e-9);
}

TEST(FairShare, NeverGivesMoreThanThereIs) {
  std::mt19937 random(7);
  for (int turn = 0; turn < 50; ++turn) {
    FairShare shares(3);
    std::vector<double> used(3);
    std::vector<std::vector<Demand>> demands;
    std::vector<double> alone;
    double now = 0, last = 0;
    for (int i = 0; i < 40; ++i) {
      std::vector<Demand> wants;
      for (int r = 0; r < 3; ++r)
        if (random() % 2 == 0) wants.push_back({r, 0.1 + 0.9 * (static_cast<double>(random() % 1000) / 1000)});
      const double seconds = 0.1 + static_cast<double>(random() % 100) / 100;
      shares.start(seconds, wants, now);
      for (const auto& demand : wants) used[static_cast<std::size_t>(demand.resource)] += demand.share * seconds;
      if (i % 3 == 0) {
        const auto next = shares.next();
        ASSERT_TRUE(next);
        EXPECT_GE(next->first, now);
        now = next->first;
        shares.finish(next->second, now);
      }
    }
    while (const auto next = shares.next()) {
      EXPECT_GE(next->first, now);
      now = last = next->first;
      shares.finish(next->second, now);
    }
    for (const double each : used) EXPECT_LE(each, last * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace ddl
