#include "ddl/predict/measured/history.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddl {
namespace {

Json entry(double ms, const std::string& measured = "today") { return {{"pass_ms", ms}, {"measured", measured}}; }

TEST(History, KeepsWhatTheSameBinaryMeasured) {
  auto first = entry(10, "monday");
  remember(first, Json(), "pass_ms", "a");
  ASSERT_EQ(first["history"].size(), 1U);
  EXPECT_EQ(first["history"][0], Json({{"measured", "monday"}, {"build", "a"}, {"pass_ms", 10.0}}));
  auto second = entry(14, "tuesday");
  remember(second, first, "pass_ms", "a");
  ASSERT_EQ(second["history"].size(), 2U);
  EXPECT_EQ(second["history"][1]["measured"], "tuesday");
  EXPECT_DOUBLE_EQ(usual(second, "pass_ms"), 12);
  auto other = entry(5);
  remember(other, second, "pass_ms", "b");
  EXPECT_EQ(other["history"].size(), 1U);
  EXPECT_DOUBLE_EQ(usual(other, "pass_ms"), 5);
}

TEST(History, OfAnOlderProfileIsItsValue) {
  EXPECT_DOUBLE_EQ(usual(entry(7), "pass_ms"), 7);
  auto next = entry(9);
  remember(next, entry(7), "pass_ms", "a");
  EXPECT_EQ(next["history"].size(), 1U);
}

TEST(History, WhatIsDamagedIsNotKept) {
  for (const char* damaged : {"3", "[3]", R"([{"build": 5, "pass_ms": 1}])", R"([{"build": "a", "pass_ms": null}])", R"([{"build": "a"}])", R"({"build": "a"})"}) {
    auto earlier = entry(3);
    earlier["history"] = Json::parse(damaged);
    auto now = entry(9);
    remember(now, earlier, "pass_ms", "a");
    EXPECT_EQ(now["history"].size(), 1U) << damaged;
    EXPECT_DOUBLE_EQ(usual(now, "pass_ms"), 9) << damaged;
  }
}

TEST(History, IsOfTheLastNine) {
  Json last;
  for (int i = 1; i <= 20; ++i) {
    auto next = entry(i);
    remember(next, last, "pass_ms", "a");
    last = next;
  }
  EXPECT_EQ(last["history"].size(), 9U);
  EXPECT_DOUBLE_EQ(usual(last, "pass_ms"), 16);
}

TEST(Drift, IsTheDeviationOfLogarithmsOverAllEntries) {
  Drift drift;
  EXPECT_EQ(drift.sigma(), 0);
  EXPECT_EQ(drift.ahead(), 0);
  auto once = entry(3);
  remember(once, Json(), "pass_ms", "a");
  drift.add(once, "pass_ms");
  EXPECT_EQ(drift.sigma(), 0);
  EXPECT_FALSE(drift.known());
  // Two pairs, each a factor of e apart: half a square each, of one degree of freedom each.
  for (const double ms : {1.0, 100.0}) {
    auto twice = entry(ms * std::exp(1));
    auto before = entry(ms);
    remember(before, Json(), "pass_ms", "a");
    remember(twice, before, "pass_ms", "a");
    drift.add(twice, "pass_ms");
  }
  EXPECT_TRUE(drift.known());
  EXPECT_NEAR(drift.sigma(), std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(drift.ahead(), std::sqrt(0.5) * std::sqrt(1.5), 1e-12) << "the next of three, against two";
}

}  // namespace
}  // namespace ddl
