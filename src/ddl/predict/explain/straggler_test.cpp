#include "ddl/predict/explain/straggler.h"

#include <gtest/gtest.h>

#include "ddl/predict/explain/explain_testing.h"

namespace ddl {
namespace {

/// Steps in which every worker is now a little faster, now a little slower.
StepDraws steps_of(const Plan& plan, const std::function<double(int worker, const Task& task)>& seconds, double noise) {
  std::vector<TracedStep> steps;
  for (int step = 1; step <= 8; ++step)
    steps.push_back(traced(plan, costs_of(plan, [&](int worker, const Task& task) { return seconds(worker, task) * (1 + noise * ((step * 5 + worker * 3) % 7 - 3)); }), step));
  return step_draws(plan, steps, true);
}

TEST(Straggler, IsTheReplicaThatIsBusyLonger) {
  const auto plan = plan_of("data", 3);
  const auto draws = steps_of(plan, [](int worker, const Task& task) { return passes(task) * (worker == 1 && task.kind == TaskKind::backward ? 1.2 : 1); }, 0.002);
  const auto found = find_straggler(plan, draws);
  EXPECT_EQ(found.worker, 1);
  EXPECT_EQ(found.task, "backward");
  EXPECT_NEAR(found.late, 0.4e-3, 4e-5);
  EXPECT_NEAR(found.task_late, 0.4e-3, 4e-5);
  EXPECT_EQ(found.steps, 8U);
}

TEST(Straggler, IsNobodyWithinTheNoise) {
  const auto plan = plan_of("data", 3);
  const auto draws = steps_of(plan, [](int worker, const Task& task) { return passes(task) * (worker == 1 ? 1.005 : 1); }, 0.02);
  EXPECT_EQ(find_straggler(plan, draws).worker, kNone);
}

// Who is late in every step counts, not who was held up once for longer than all of that.
TEST(Straggler, IsNotHiddenByWhoWasHeldUpOnce) {
  const auto plan = plan_of("data", 4);
  std::vector<TracedStep> steps;
  for (int step = 1; step <= 20; ++step)
    steps.push_back(traced(plan, costs_of(plan, [&](int worker, const Task& task) { return passes(task) * (worker == 1 && task.kind == TaskKind::backward ? 1.4 : 1) + (worker == 3 && step == 7 && task.kind == TaskKind::forward ? 40e-3 : 0); }), step));
  const auto found = find_straggler(plan, step_draws(plan, steps, true));
  EXPECT_EQ(found.worker, 1);
  EXPECT_EQ(found.task, "backward");
  EXPECT_NEAR(found.late, found.task_late, 1e-4);
}

TEST(Straggler, IsAStageThatTakesLongerThanTheOthers) {
  const auto plan = plan_of("pipeline[schedule=1f1b,micro=4]", 3);
  const auto draws = steps_of(plan, [](int worker, const Task& task) { return passes(task) * (worker == 2 ? 1.5 : 1); }, 0.001);
  const auto found = find_straggler(plan, draws);
  EXPECT_EQ(found.worker, 2);
  EXPECT_EQ(found.task, "backward");
  EXPECT_NEAR(found.late, 6e-3, 3e-4);
}

TEST(Straggler, IsTheReplicaThatWaitsForItsBatches) {
  const auto plan = plan_of("data", 3);
  const auto draws = steps_of(plan, [](int worker, const Task& task) { return passes(task) + (task.kind == TaskKind::load ? (worker == 2 ? 1.5e-3 : 0.5e-3) : 0); }, 0.002);
  const auto found = find_straggler(plan, draws);
  EXPECT_EQ(found.worker, 2);
  EXPECT_EQ(found.task, "load");
  EXPECT_NEAR(found.task_late, 1e-3, 1e-4);
}

// The first stage loads, and no other does: that says nothing of who is slow.
TEST(Straggler, IsNoStageForItsBatches) {
  const auto plan = plan_of("pipeline[schedule=1f1b,micro=4]", 3);
  const auto draws = steps_of(plan, [](int, const Task& task) { return passes(task) + (task.kind == TaskKind::load ? 2e-3 : 0); }, 0.001);
  EXPECT_EQ(find_straggler(plan, draws).worker, kNone);
}

TEST(Straggler, NeedsPeers) {
  const auto plan = plan_of("single", 1);
  EXPECT_EQ(find_straggler(plan, steps_of(plan, [](int, const Task& task) { return passes(task); }, 0.01)).worker, kNone);
}

}  // namespace
}  // namespace ddl
