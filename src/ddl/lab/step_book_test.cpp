#include "ddl/lab/step_book.h"

#include <gtest/gtest.h>

namespace ddl {
namespace {

/// Two workers that do the same: load, forward, backward, all-reduce beside it, update.
Plan small_plan() {
  Plan plan;
  plan.mesh.axes = {{"data", 2}};
  plan.groups = {{"data", {{0}}}};
  Role role{"replica", 0, 2};
  for (const auto kind : {TaskKind::load, TaskKind::forward, TaskKind::backward, TaskKind::collective, TaskKind::update}) {
    Task task;
    task.kind = kind;
    task.label = std::string(name(kind)) + "!";
    if (kind == TaskKind::collective) {
      task.stream = Stream::communication;
      task.cargo = Cargo::gradients;
      task.group = 0;
    }
    role.tasks.push_back(task);
  }
  plan.roles = {role};
  return plan;
}

/// A step of 100 µs: the all-reduce of `rank` begins at 40 + 20 * rank, and ends at 80.
Trace step_of(int rank, std::int32_t step) {
  const auto span = [&](Nanoseconds begin, Nanoseconds end, int task, Stream stream, Cause cause, std::uint32_t meeting = 0) {
    const Nanoseconds from = 100'000 * step;
    return Span{from + begin * 1000, from + end * 1000, step, task, static_cast<std::int16_t>(rank), stream, cause, meeting};
  };
  return {span(1, 30, 1, Stream::compute, Cause::forward), span(30, 70, 2, Stream::compute, Cause::backward),
          span(70, 85, 3, Stream::compute, Cause::communication, 7), span(85, 95, 4, Stream::compute, Cause::update),
          span(40 + 20 * rank, 80, 3, Stream::communication, Cause::communication, 7)};
}

StepBook filled(TraceMode mode, int steps) {
  StepBook book(2, mode);
  for (std::int32_t step = 0; step < steps; ++step)
    for (int rank = 0; rank < 2; ++rank) book.add(rank, {{step, 100'000 * step, 100'000 * (step + 1), 1, 32}}, step_of(rank, step));
  return book;
}

TEST(StepBook, FoldsStepsThatEveryRankHasToldOf) {
  auto book = filled(TraceMode::all, 3);
  EXPECT_EQ(book.complete(), 3);
  book.add(0, {{3, 300'000, 400'000, 1, 32}}, step_of(0, 3));
  EXPECT_EQ(book.complete(), 3);
  const auto ledger = book.ledger(0, 1);
  EXPECT_NEAR(ledger.wall, 200e-6, 1e-12);
  EXPECT_NEAR(ledger[Cause::communication], 30e-6, 1e-12);
  EXPECT_NEAR(ledger[Cause::residual], 12e-6, 1e-12);
  const auto activity = book.activity(0, 1);
  EXPECT_NEAR(activity.overlapped, 20e-6, 1e-12) << "from 60, when the last is there, to 70, when backward ends";
  EXPECT_NEAR(activity.communication, 50e-6, 1e-12);
  EXPECT_NEAR(activity.idle, 12e-6, 1e-12);
}

TEST(StepBook, TraceHasNamesMeetingsAndSteps) {
  const auto book = filled(TraceMode::recent, 25);
  const auto trace = book.trace(small_plan());
  const auto steps = book.trace_steps();
  ASSERT_EQ(steps.size(), 40U);
  EXPECT_EQ(steps[0].at("step"), 5);
  EXPECT_EQ(steps[0].at("begin_us"), 0);
  ASSERT_EQ(trace.size(), 200U);
  EXPECT_EQ(trace[0].at("begin_us"), 1) << "since the first traced step began";
  EXPECT_EQ(trace[0].at("name"), "forward!");
  EXPECT_FALSE(trace[0].contains("meeting"));
  EXPECT_EQ(trace[2].at("name"), "collective!");
  EXPECT_EQ(trace[2].at("meeting"), 7);
}

TEST(StepBook, ATaskOfAnotherPlanIsNotNamed) {
  auto plan = small_plan();
  std::swap(plan.roles[0].tasks[3], plan.roles[0].tasks[4]);
  const auto trace = filled(TraceMode::all, 1).trace(plan);
  EXPECT_EQ(trace[1].at("name"), "backward!");
  EXPECT_EQ(trace[2].at("name"), "communication");
  EXPECT_EQ(trace[2].at("task"), kNone);
  EXPECT_EQ(trace[3].at("name"), "update");
}

TEST(StepBook, KeepsNothingWithTheTraceOff) {
  const auto book = filled(TraceMode::off, 3);
  EXPECT_TRUE(book.trace(small_plan()).empty());
  EXPECT_TRUE(book.trace_steps().empty());
  EXPECT_NEAR(book.ledger(1, 0).wall, 300e-6, 1e-12);
}

}  // namespace
}  // namespace ddl
