#include "ddl/measure/ledger.h"

#include <numeric>

#include <gtest/gtest.h>

namespace ddl {
namespace {

Span compute(Cause cause, Nanoseconds begin, Nanoseconds end, int task = -1, int worker = 0) {
  return {begin, end, 0, task, static_cast<std::int16_t>(worker), Stream::compute, cause, static_cast<std::uint32_t>(task + 1)};
}
Span collective(int task, Nanoseconds begin, Nanoseconds end, int worker) {
  return {begin, end, 0, task, static_cast<std::int16_t>(worker), Stream::communication, Cause::communication, static_cast<std::uint32_t>(task + 1)};
}
double total(const Ledger& ledger) { return std::accumulate(ledger.seconds.begin(), ledger.seconds.end(), 0.0); }
constexpr double kNano = 1e-9;

TEST(Ledger, AddsUpToWallWithTheResidualShown) {
  const Trace trace{compute(Cause::forward, 10, 40), compute(Cause::backward, 40, 90)};
  const auto ledger = fold(trace, 0, 0, 100);
  EXPECT_DOUBLE_EQ(ledger[Cause::forward], 30 * kNano);
  EXPECT_DOUBLE_EQ(ledger[Cause::backward], 50 * kNano);
  EXPECT_DOUBLE_EQ(ledger[Cause::residual], 20 * kNano);
  EXPECT_DOUBLE_EQ(total(ledger), ledger.wall);
}

TEST(Ledger, InnermostSpanCounts) {
  const Trace trace{compute(Cause::backward, 0, 100), compute(Cause::copy, 20, 30), compute(Cause::copy, 90, 100)};
  const auto ledger = fold(trace, 0, 0, 100);
  EXPECT_DOUBLE_EQ(ledger[Cause::copy], 20 * kNano);
  EXPECT_DOUBLE_EQ(ledger[Cause::backward], 80 * kNano);
  EXPECT_NEAR(ledger[Cause::residual], 0, 1e-18);
}

TEST(Ledger, SplitsExposedCommunicationAtTheLastArrival) {
  // Worker 0 blocks on task 5 from 50 to 100; its peer begins that collective only at 80.
  const Trace trace{compute(Cause::communication, 50, 100, 5), collective(5, 40, 100, 0), collective(5, 80, 100, 1)};
  const auto ledger = fold(trace, 0, 0, 100);
  EXPECT_DOUBLE_EQ(ledger[Cause::wait], 30 * kNano);
  EXPECT_DOUBLE_EQ(ledger[Cause::communication], 20 * kNano);
}

TEST(Ledger, SplitsABubbleAtTheMomentAtWhichTheMessageIsSent) {
  const Trace trace{compute(Cause::bubble, 50, 100, 5), collective(5, 40, 100, 0), collective(5, 80, 100, 1)};
  const auto ledger = fold(trace, 0, 0, 100);
  EXPECT_DOUBLE_EQ(ledger[Cause::bubble], 30 * kNano);
  EXPECT_DOUBLE_EQ(ledger[Cause::communication], 20 * kNano);
}

TEST(Ledger, LatePeerDoesNotWaitForItself) {
  const Trace trace{compute(Cause::communication, 80, 100, 5, 1), collective(5, 40, 100, 0), collective(5, 80, 100, 1)};
  const auto ledger = fold(trace, 1, 0, 100);
  EXPECT_DOUBLE_EQ(ledger[Cause::wait], 0);
  EXPECT_DOUBLE_EQ(ledger[Cause::communication], 20 * kNano);
}

TEST(Ledger, ClipsToTheInterval) {
  const Trace trace{compute(Cause::forward, 0, 60), compute(Cause::backward, 60, 200)};
  const auto ledger = fold(trace, 0, 50, 100);
  EXPECT_DOUBLE_EQ(ledger[Cause::forward], 10 * kNano);
  EXPECT_DOUBLE_EQ(ledger[Cause::backward], 40 * kNano);
  EXPECT_DOUBLE_EQ(total(ledger), ledger.wall);
}

TEST(Ledger, OtherWorkersAndStreamsSpendNoWallTime) {
  const Trace trace{compute(Cause::forward, 0, 60, -1, 1), collective(0, 0, 60, 0)};
  const auto ledger = fold(trace, 0, 0, 100);
  EXPECT_DOUBLE_EQ(ledger[Cause::residual], 100 * kNano);
}

}  // namespace
}  // namespace ddl
