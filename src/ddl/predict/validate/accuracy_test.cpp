#include "ddl/predict/validate/accuracy.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddl {
namespace {

TEST(Accuracy, SumsUpErrorsInTheTablesOwnUnit) {
  const auto found = accuracy({{10, 11, 9, 12, false, ""}, {20, 18, 19, 21, false, ""}, {100, 100, 90, 110, true, ""}});
  EXPECT_EQ(found.rows, 3);
  EXPECT_NEAR(found.mape, 20.0 / 3, 1e-9);
  EXPECT_NEAR(found.max, 10, 1e-9);
  EXPECT_NEAR(found.bias, 0, 1e-9);
  EXPECT_NEAR(found.coverage, 1, 1e-9);  // measured 20 lies in 19 to 21 although 18 was said
  EXPECT_NEAR(found.wide, std::pow(12.0 / 9 * 21 / 19 * 110 / 90, 1.0 / 6), 1e-9);
  EXPECT_NEAR(found.tau, 1, 1e-9);
  EXPECT_TRUE(std::isnan(found.regret));
}

// Kendall 1945: 1, 2, 3, 4 against 1, 3, 2, 4 has five pairs in order and one out of it.
TEST(Accuracy, TauCountsPairs) {
  const std::vector<double> a{1, 2, 3, 4}, b{1, 3, 2, 4}, same{5, 5, 5, 5}, ties{1, 1, 2, 2};
  EXPECT_NEAR(kendall_tau(a, b), 4.0 / 6, 1e-12);
  EXPECT_NEAR(kendall_tau(a, a), 1, 1e-12);
  EXPECT_TRUE(std::isnan(kendall_tau(a, same)));
  EXPECT_NEAR(kendall_tau(a, ties), 4 / std::sqrt(6.0 * 4), 1e-12);
}

// Of three ways to do one thing the second was predicted best, and takes 10 where the best takes 8.
TEST(Accuracy, RegretIsWhatTheChoiceCosts) {
  const auto found = accuracy({{8, 9, 0, 99, false, "job"}, {10, 7, 0, 99, false, "job"}, {30, 30, 0, 99, false, "job"}, {5, 5, 0, 99, false, "other, without a choice"}});
  EXPECT_NEAR(found.regret, 25, 1e-9);
  // Of rates the higher is the better.
  EXPECT_NEAR(accuracy({{8, 9, 0, 99, true, "job"}, {10, 7, 0, 99, true, "job"}}).regret, 25, 1e-9);
}

// One way's row has a step's seconds, the other's a rate of 256 samples a step: .5 s and 1 s, of which the first is the faster.
TEST(Accuracy, StepsAndRatesOfOneTableAreComparedAsSteps) {
  Predicted rate{256, 250, 0, 999, true, "job"};
  rate.batch = 256;
  const auto found = accuracy({{0.5, 0.6, 0, 99, false, "job"}, rate});
  EXPECT_NEAR(found.regret, 0, 1e-9);
  EXPECT_NEAR(found.tau, 1, 1e-9);
  EXPECT_NEAR(accuracy({{0.5, 2, 0, 99, false, "job"}, rate}).regret, 100, 1e-9) << "chosen by a prediction of 2 s against 1.02";
}

TEST(Accuracy, OfNothingIsNotANumber) {
  EXPECT_EQ(accuracy({}).rows, 0);
  EXPECT_TRUE(std::isnan(accuracy({}).mape));
}

}  // namespace
}  // namespace ddl
