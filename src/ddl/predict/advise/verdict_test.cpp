#include "ddl/predict/advise/verdict.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ddl {
namespace {

/// `wide`: how much faster one of two such is to be for it to be known to be faster.
Rated rated(int workers, double seconds, double wide = 1.1, bool fits = true) { return {workers, seconds, std::log(wide) / 1.9 / std::sqrt(2.0), fits}; }

TEST(Verdict, TakesTheFastestWhereItIs) {
  const auto found = judge({rated(1, 4), rated(2, 2.1), rated(4, 1.2), rated(4, 1.25), rated(4, 0.5, 1.1, false)});
  EXPECT_EQ(found.best, 2u);
  EXPECT_EQ(found.pick, 2u);
  EXPECT_EQ(found.alone, 0u);
  EXPECT_TRUE(found.worth_it());
  EXPECT_EQ(found.ties, (std::vector<std::size_t>{3}));
}

TEST(Verdict, NotWorthItWhereOneWorkerIsAsFast) {
  const auto found = judge({rated(1, 1.05), rated(2, 1.0), rated(4, 1.2)});
  EXPECT_EQ(found.best, 1u);
  EXPECT_EQ(found.pick, 0u);
  EXPECT_FALSE(found.worth_it());
  EXPECT_FALSE(judge({rated(1, 1), rated(2, 3)}).worth_it());
}

TEST(Verdict, WhatAllAreOffAlikeByTellsNothing) {
  // The faster way's own error counts, and the slower one's: which of them is known better is all the same.
  const auto [low, high] = times_as_fast(rated(2, 1, 1.0), rated(1, 1.9, 1.2));
  EXPECT_NEAR(low, 1.9 / std::pow(1.2, std::sqrt(0.5)), 1e-9);
  EXPECT_NEAR(low * high, 1.9 * 1.9, 1e-9);
  EXPECT_NEAR(times_as_fast(rated(1, 1.9, 1.2), rated(2, 1, 1.0)).first, 1 / high, 1e-12);
  EXPECT_FALSE(judge({rated(1, 1.2, 1.5), rated(2, 1, 1.0)}).worth_it());
  EXPECT_TRUE(judge({rated(1, 1.4, 1.5), rated(2, 1, 1.0)}).worth_it());
}

TEST(Verdict, FewerAreEnoughWhereTheyAreAsFast) {
  const auto found = judge({rated(1, 4), rated(2, 2.1), rated(4, 2.0)});
  EXPECT_EQ(found.best, 2u);
  EXPECT_EQ(found.pick, 1u);
  EXPECT_TRUE(found.worth_it());
}

TEST(Verdict, ThePlainWayIsTakenWhereItIsAlike) {
  const auto plain = [](int workers, double seconds) {
    auto out = rated(workers, seconds);
    out.plain = true;
    return out;
  };
  const auto alike = judge({plain(1, 4), rated(2, 2.0), rated(2, 2.005), plain(2, 2.03)});
  EXPECT_EQ(alike.best, 1u);
  EXPECT_EQ(alike.pick, 3u);
  EXPECT_EQ(alike.ties, (std::vector<std::size_t>{1, 2}));
  EXPECT_EQ(judge({plain(1, 4), rated(2, 2.0), plain(2, 2.05)}).pick, 1u) << "within the interval, but told apart";
  EXPECT_EQ(judge({plain(1, 4), rated(4, 2.0), plain(2, 2.01), rated(2, 2.0)}).pick, 2u);
  EXPECT_EQ(judge({plain(1, 4), rated(2, 2.0), plain(4, 2.0)}).pick, 1u) << "of more workers";
}

TEST(Verdict, WhatNoWorkerHoldsIsNoneToTake) {
  const auto alone = judge({rated(1, 1, 1.1, false), rated(2, 1)});
  EXPECT_FALSE(alone.alone.has_value());
  EXPECT_TRUE(alone.worth_it());
  const auto none = judge({rated(1, 1, 1.1, false)});
  EXPECT_FALSE(none.pick.has_value());
  EXPECT_FALSE(none.best.has_value());
  EXPECT_FALSE(judge({}).pick.has_value());
}

TEST(Verdict, OrderIsLostWhereIntervalsAreApart) {
  EXPECT_TRUE(order_held({{.9, 1.1}, {.95, 1.15}, {.92, 1.12}})) << "within what their intervals tell apart";
  EXPECT_FALSE(order_held({{1.8, 2.2}, {.9, 1.1}}));
  EXPECT_TRUE(order_held({}));
}

}  // namespace
}  // namespace ddl
