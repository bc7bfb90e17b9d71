#include "ddl/measure/timeline.h"

#include <gtest/gtest.h>

#include "ddl/core/random.h"
#include "ddl/measure/ledger.h"

namespace ddl {
namespace {

constexpr double kNano = 1e-9;

Span compute(Cause cause, Nanoseconds begin, Nanoseconds end, std::uint32_t meeting = 0, int worker = 0) {
  return {begin, end, 0, -1, static_cast<std::int16_t>(worker), Stream::compute, cause, meeting};
}
Span communication(Nanoseconds begin, Nanoseconds end, std::uint32_t meeting, int worker = 0) {
  return {begin, end, 0, -1, static_cast<std::int16_t>(worker), Stream::communication, Cause::communication, meeting};
}

Activity activity_of(const Trace& spans, int worker, Nanoseconds begin, Nanoseconds end) {
  const Arrivals arrivals(spans);
  const auto flat = flatten(spans, worker, begin, end, arrivals);
  return activity(flat, moving(spans, worker, begin, end, arrivals, flat), begin, end);
}

TEST(Timeline, FlattensToTheInnermostInOrder) {
  const Trace spans{compute(Cause::backward, 0, 100), compute(Cause::copy, 20, 30)};
  const auto flat = flatten(spans, 0, 0, 100, Arrivals(spans));
  ASSERT_EQ(flat.size(), 3U);
  EXPECT_EQ(flat[0].cause, Cause::backward);
  EXPECT_EQ(flat[0].end, 20);
  EXPECT_EQ(flat[1].cause, Cause::copy);
  EXPECT_EQ(flat[2].cause, Cause::backward);
  EXPECT_EQ(flat[2].begin, 30);
}

TEST(Timeline, CutsWaitsAtTheLastArrival) {
  const Trace spans{compute(Cause::bubble, 50, 100, 1), communication(40, 95, 1, 0), communication(80, 95, 1, 1)};
  const auto flat = flatten(spans, 0, 0, 100, Arrivals(spans));
  ASSERT_EQ(flat.size(), 2U);
  EXPECT_EQ(flat[0].cause, Cause::bubble);
  EXPECT_EQ(flat[0].end, 80);
  EXPECT_EQ(flat[1].cause, Cause::communication);
  EXPECT_EQ(flat[1].end, 100);
}

TEST(Timeline, BytesMoveOnlyOnceEveryWorkerIsThere) {
  // From 40 on worker 0 has its part of the collective open; its peer comes at 60. It computes until 70, and waits until 95 for what is over at 90.
  const Trace spans{compute(Cause::backward, 0, 70), compute(Cause::communication, 70, 95, 1), communication(40, 90, 1, 0), communication(60, 90, 1, 1)};
  const auto found = activity_of(spans, 0, 0, 100);
  EXPECT_DOUBLE_EQ(found.communication, 35 * kNano);
  EXPECT_DOUBLE_EQ(found.overlapped, 10 * kNano);
  EXPECT_DOUBLE_EQ(found.idle, 5 * kNano);
}

TEST(Timeline, MessagesAtTheSameTimeCountOnce) {
  const Trace spans{compute(Cause::forward, 0, 100), communication(10, 50, 1), communication(20, 60, 2), communication(60, 70, 3), communication(90, 120, 4)};
  const auto found = activity_of(spans, 0, 0, 100);
  EXPECT_DOUBLE_EQ(found.communication, 70 * kNano);
  EXPECT_DOUBLE_EQ(found.overlapped, 70 * kNano);
  EXPECT_DOUBLE_EQ(found.idle, 0);
}

TEST(Timeline, AMessageThatMovesWhileTheWorkerWaitsForAnotherIsNotIdle) {
  const Trace spans{compute(Cause::bubble, 0, 100, 1), communication(0, 100, 1), communication(80, 100, 1, 1), communication(10, 30, 2), communication(5, 30, 2, 1)};
  const auto found = activity_of(spans, 0, 0, 100);
  EXPECT_DOUBLE_EQ(found.communication, 40 * kNano);
  EXPECT_DOUBLE_EQ(found.idle, 60 * kNano);
  EXPECT_DOUBLE_EQ(fold(spans, 0, 0, 100)[Cause::bubble], 80 * kNano);
}

TEST(Timeline, AgreesWithCountingNanosecondByNanosecond) {
  Random random(7);
  const auto below = [&](int limit) { return static_cast<Nanoseconds>(random.uniform() * limit); };
  for (int round = 0; round < 50; ++round) {
    constexpr Nanoseconds kEnd = 400;
    Trace spans;
    for (Nanoseconds time = below(20); time < kEnd;) {
      const Nanoseconds end = time + 1 + below(60);
      const Cause causes[]{Cause::forward, Cause::backward, Cause::update, Cause::copy, Cause::load, Cause::communication, Cause::bubble};
      const auto cause = causes[below(7)];
      spans.push_back(compute(cause, time, end, cause == Cause::communication || cause == Cause::bubble ? 1 + static_cast<std::uint32_t>(below(9)) : 0));
      time = end + below(3) * below(10);
    }
    for (std::uint32_t meeting = 1; meeting < 10; ++meeting)
      for (int worker = 0; worker < 2; ++worker) {
        const auto begin = below(380);
        spans.push_back(communication(begin, begin + below(80), meeting, worker));
      }
    const Arrivals arrivals(spans);
    double moved = 0, overlapped = 0, idle = 0;
    const auto flat = flatten(spans, 0, 0, kEnd, arrivals);
    for (Nanoseconds time = 0; time < kEnd; ++time) {
      bool computing = false, copying = false, moves = false;
      for (const auto& piece : flat)
        if (piece.begin <= time && time < piece.end) {
          computing |= computes(piece.cause);
          copying |= piece.cause == Cause::copy;
          moves |= piece.cause == Cause::communication;
        }
      for (const auto& span : spans)
        moves |= span.worker == 0 && span.stream == Stream::communication && std::max(span.begin, *arrivals.of(span)) <= time && time < span.end;
      moved += moves;
      overlapped += moves && computing;
      idle += !moves && !computing && !copying;
    }
    const auto found = activity_of(spans, 0, 0, kEnd);
    EXPECT_NEAR(found.communication, moved * kNano, 1e-15);
    EXPECT_NEAR(found.overlapped, overlapped * kNano, 1e-15);
    EXPECT_NEAR(found.idle, idle * kNano, 1e-15);
  }
}

}  // namespace
}  // namespace ddl
