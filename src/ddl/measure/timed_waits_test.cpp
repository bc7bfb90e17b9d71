#include "ddl/measure/timed_waits.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ddl {
namespace {

constexpr double kUs = 1e-6;

/// Time passes only where a test or a wait says so.
struct MadeUpClock {
  Nanoseconds time = 1'000'000'000;
  Nanoseconds late = 0;  ///< of each wait
  WaitClock clock(Nanoseconds margin = 0) {
    return {[this] { return time; }, [this](Nanoseconds due) { time = std::max(time, due) + late; }, margin};
  }
};

TEST(TimedWaits, LateWakeUpsDoNotAddUpWithinAPieceOfWork) {
  MadeUpClock made;
  made.late = 7'000;
  TimedWaits waits(made.clock());
  const auto begin = made.time;
  waits.begin();
  for (int layer = 0; layer < 100; ++layer) {
    waits.charge(50 * kUs);
    waits.settle();
  }
  waits.end();
  EXPECT_EQ(made.time - begin, 100 * 50'000 + 7'000);
  EXPECT_EQ(waits.report().waits, 100);
  EXPECT_NEAR(waits.report().late_median, 7 * kUs, 1e-9);
}

TEST(TimedWaits, NorBetweenPiecesUnlessSomethingElseWasWaitedFor) {
  MadeUpClock made;
  made.late = 7'000;
  TimedWaits waits(made.clock());
  const auto work = [&](double us) {
    waits.begin();
    waits.charge(us * kUs);
    waits.end();
  };
  const auto begin = made.time;
  work(50);
  made.time += 3'000;  // what the worker itself does between two pieces has its time
  work(50);
  EXPECT_EQ(made.time - begin, 50'000 + 3'000 + 50'000 + 7'000);
  made.time += 1'000;
  waits.waited(1'000);  // it was there
  work(50);
  EXPECT_EQ(made.time - begin, 103'000 + 1'000 + 50'000 + 7'000);
  made.time += 90'000;
  waits.waited(90'000);
  const auto met = made.time;
  work(50);
  EXPECT_EQ(made.time - met, 50'000 + 7'000);
}

TEST(TimedWaits, WhatIsWaitedForWithinAPieceIsNoPartOfIt) {
  MadeUpClock made;
  TimedWaits waits(made.clock());
  const auto begin = made.time;
  waits.begin();
  waits.charge(50 * kUs);
  waits.settle();
  made.time += 40'000;
  waits.waited(40'000);
  waits.charge(50 * kUs);
  waits.end();
  EXPECT_EQ(made.time - begin, 50'000 + 40'000 + 50'000);
}

TEST(TimedWaits, WhatTheWorkerIsTooSlowForIsNotMadeUp) {
  MadeUpClock made;
  TimedWaits waits(made.clock());
  waits.begin();
  waits.charge(50 * kUs);
  made.time += 80'000;
  waits.end();
  const auto ended = made.time;
  waits.begin();
  waits.charge(50 * kUs);
  waits.end();
  EXPECT_EQ(made.time - ended, 50'000);
  const auto report = waits.report();
  EXPECT_EQ(report.waits, 1);
  EXPECT_NEAR(report.compute, 100 * kUs, 1e-12);
  EXPECT_NEAR(report.taken, 130 * kUs, 1e-12);
}

TEST(TimedWaits, ShortOnesAreCarriedIntoTheNext) {
  MadeUpClock made;
  TimedWaits waits(made.clock(80'000));
  const auto begin = made.time;
  for (int piece = 0; piece < 30; ++piece) {
    waits.begin();
    waits.charge(4 * kUs);
    waits.end();
  }
  // 12 us are waited for, 8 and 4 are not.
  EXPECT_EQ(waits.report().waits, 10);
  EXPECT_EQ(made.time - begin, 30 * 4'000);
}

TEST(TimedWaits, PiecesWithinAPieceAndLessThanANanosecondCount) {
  MadeUpClock made;
  TimedWaits waits(made.clock());
  const auto begin = made.time;
  waits.begin();
  for (int i = 0; i < 1000; ++i) {
    waits.begin();
    waits.charge(0.25e-9);
    waits.end();
  }
  waits.end();
  EXPECT_EQ(made.time - begin, 250);
}

// On the real clock. A machine with much else to do wakes a thread late, never early, and how late no test can promise: what was late is told, and the rest is what was charged.
TEST(TimedWaits, OnThisMachine) {
  const auto margin = wake_up_margin();
  EXPECT_GE(margin, 0);
  EXPECT_LE(margin, 200'000);
  TimedWaits waits(sleeping_clock(margin));
  const auto begin = now();
  for (int piece = 0; piece < 50; ++piece) {
    waits.begin();
    for (int layer = 0; layer < 10; ++layer) waits.charge(100 * kUs);
    waits.end();
  }
  const double took = seconds(now() - begin);
  const auto report = waits.report();
  EXPECT_GE(took, 0.05 - 200 * kUs);
  EXPECT_LE(report.taken, took);
  EXPECT_GE(report.taken, 0.05 - 200 * kUs);
  EXPECT_NEAR(report.compute, 0.05, 1e-9);
  EXPECT_GE(report.waits, 40);
  EXPECT_LE(report.late_median, report.late_p95);
  EXPECT_LE(report.late_p95, report.late_max + 1e-9);
}

}  // namespace
}  // namespace ddl
