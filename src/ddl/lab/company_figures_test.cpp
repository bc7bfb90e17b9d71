#include "ddl/lab/company_figures.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ddl {
namespace {

/// Steps of which forward and backward vary by `both` together and by `each` apart; logarithms of workers have `shared` of their variance in common.
std::vector<CompanyTimes> made_up(std::size_t steps, double both, double each, double shared = 0) {
  std::mt19937_64 draws(7);
  std::normal_distribution<double> normal;
  std::vector<CompanyTimes> workers(2);
  for (std::size_t i = 0; i < steps; ++i) {
    const double common = normal(draws);
    for (auto& worker : workers) {
      const double own = std::sqrt(shared) * common + std::sqrt(1 - shared) * normal(draws);
      const double forward = 0.1 * std::exp(both * own + each * normal(draws)), backward = 0.1 * std::exp(both * own + each * normal(draws));
      worker.together.push_back(forward + backward);
      worker.together_first.push_back(forward);
    }
  }
  return workers;
}

TEST(CompanyFigures, SlowdownIsTheMedianOfAllOverThatOfOneAlone) {
  const std::vector<CompanyTimes> workers{{{1.0, 1.1, 9.0}, {1.4, 1.5, 1.6}, {}, {}}, {{}, {1.8, 1.9, 9.0}, {}, {}}};
  EXPECT_DOUBLE_EQ(slowdown_together(workers), 1.7 / 1.1);
}

// What others take from all of them is not what they lose to each other.
TEST(CompanyFigures, SlowdownIsOfACoresSecondsWhereTheseWereCounted) {
  const std::vector<CompanyTimes> workers{{{1.0}, {3.0}, {1.0}, {1.2}}, {{}, {3.0}, {}, {1.2}}};
  EXPECT_DOUBLE_EQ(slowdown_together(workers), 1.2);
}

TEST(CompanyFigures, SigmaIsARatio) {
  const std::vector<double> times{1, std::exp(0.1), std::exp(-0.1)}, slower{5, 5 * std::exp(0.1), 5 * std::exp(-0.1)};
  EXPECT_NEAR(sigma_of_log(times), 0.1, 1e-12);
  EXPECT_NEAR(sigma_of_log(slower), 0.1, 1e-12);
  EXPECT_EQ(sigma_of_log(std::vector{3.0}), 0);
  EXPECT_EQ(sigma_of_log(std::vector{3.0, 3.0, 3.0}), 0);
}

TEST(CompanyFigures, Correlation) {
  const std::vector<double> a{1, 2, 4, 8}, doubled{3, 6, 12, 24}, inverse{8, 4, 2, 1}, still{2, 2, 2, 2};
  EXPECT_NEAR(correlation_of_logs(a, doubled), 1, 1e-12);
  EXPECT_NEAR(correlation_of_logs(a, inverse), -1, 1e-12);
  EXPECT_EQ(correlation_of_logs(a, still), 0);
  EXPECT_NEAR(correlation_of_workers(std::vector<CompanyTimes>{{{}, a, {}, {}}, {{}, doubled, {}, {}}, {{}, inverse, {}, {}}}), 0, 1e-12);  // 1 and -1
  EXPECT_EQ(correlation_of_workers(std::vector<CompanyTimes>{{{}, a, {}, {}}}), 0);
  EXPECT_NEAR(correlation_of_workers(made_up(4000, 0.05, 0, 0.6)), 0.6, 0.05);
  // In two steps of a hundred something holds up all of them.
  auto stalled = made_up(4000, 0.05, 0, 0.2);
  for (auto& worker : stalled)
    for (std::size_t i = 0; i < worker.together.size(); i += 50) worker.together[i] *= 3;
  EXPECT_NEAR(correlation_of_workers(stalled), 0.2, 0.07);
}

TEST(CompanyFigures, BriefIsWhatForwardAndBackwardOfAStepHaveApart) {
  EXPECT_NEAR(brief_share(made_up(4000, 0.05, 0)).value(), 0, 0.02);
  EXPECT_NEAR(brief_share(made_up(4000, 0, 0.05)).value(), 1, 0.05);
  EXPECT_NEAR(brief_share(made_up(4000, 0.04, 0.03)).value(), 0.36, 0.05);  // .0009 of .0025
  EXPECT_EQ(brief_share(made_up(11, 0.05, 0.05)), std::nullopt) << "22 steps tell nothing";
  EXPECT_TRUE(brief_share(made_up(12, 0.05, 0.05)));
}

TEST(CompanyFigures, GoThroughJson) {
  const CompanyTimes times{{1, 2}, {3}, {4}, {5}, {6}};
  const auto back = company_times(to_json(times));
  EXPECT_EQ(back.alone, times.alone);
  EXPECT_EQ(back.together, times.together);
  EXPECT_EQ(back.alone_core, times.alone_core);
  EXPECT_EQ(back.together_core, times.together_core);
  EXPECT_EQ(back.together_first, times.together_first);
}

}  // namespace
}  // namespace ddl
