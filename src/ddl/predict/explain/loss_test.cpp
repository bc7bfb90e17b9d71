#include "ddl/predict/explain/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"
#include "ddl/predict/explain/explain_testing.h"

namespace ddl {
namespace {

const CausePart* part_of(const LossReport& loss, LossCause cause) {
  for (const auto& part : loss.parts)
    if (part.cause == cause) return &part;
  return nullptr;
}

double gain(const LossReport& loss, LossCause cause) {
  const auto* part = part_of(loss, cause);
  return part == nullptr ? std::nan("") : loss.simulated - part->step_without;
}

void expect_sums(const LossReport& loss, const std::string& what) {
  double sum = loss.speedup + loss.not_explained;
  for (const auto& part : loss.parts) sum += part.lost;
  EXPECT_NEAR(sum, loss.workers, 1e-9) << what;
}

LossReport report(const Plan& plan, const StepCosts& costs) {
  const auto draws = step_draws(plan, {traced(plan, costs)}, true);
  return attribute_loss({plan, draws});
}

double uneven(int worker, const Task& task) { return communicates(task) ? (task.cargo == Cargo::control ? 2e-5 : 3e-4) : task.kind == TaskKind::update ? 1e-4 : task.kind == TaskKind::average ? 5e-5 : passes(task) * (1 + 0.05 * worker); }

// What tasks took is read from a trace, and simulated it gives the step that was traced; the parts sum to the whole.
TEST(Loss, ATracedStepIsSimulatedAgain) {
  for (const auto* strategy : {"data[bucket=100KiB,first-bucket=10KiB]", "data[overlap=off]", "pipeline[schedule=1f1b,micro=6]", "pipeline[schedule=gpipe,micro=4]", "pipeline[schedule=zb-h1,micro=6]",
                               "pipeline[schedule=interleaved-1f1b,micro=8,chunks=2]", "sharded[level=1]", "sharded[level=2]", "sharded[level=3,unit=1]", "tensor", "model", "local[every=1]",
                               "hybrid[data=2,pipeline=2,micro=4]", "hybrid[pipeline=2,tensor=2,micro=4]", "parameter-server[servers=2]"}) {
    const auto plan = plan_of(strategy, 4);
    auto costs = costs_of(plan, uneven);
    for (auto& role : costs.ready)
      for (std::size_t b = 0; b < role.size(); ++b) role[b] = static_cast<double>(b + 1) / static_cast<double>(role.size());
    costs.harness.assign(costs.harness.size(), {4e-5});
    const auto loss = report(plan, costs);
    // One task of a server is a message with each worker, of which the trace tells the last.
    EXPECT_NEAR(loss.simulated / loss.measured, 1, plan.serving.servers > 0 ? 0.03 : 0.01) << strategy;
    expect_sums(loss, strategy);
  }
}

// Where something else has a worker's core, it is through with a collective long after others, who have gone on.
TEST(Loss, EachIsThroughWithACollectiveByItself) {
  const auto plan = plan_of("data[overlap=off]", 4);
  std::vector<StepCosts> by_step;
  for (int s = 0; s < 9; ++s)
    // Who gets its results late makes up for it in the next step, where it computes alone.
    by_step.push_back(costs_of(plan, [&](int worker, const Task& task) { return communicates(task) ? ((worker + s) % 2 == 0 ? 6e-4 : 5e-5) : passes(task) * ((worker + s) % 2 == 0 ? 1.4 : 1); }));
  by_step.front().ends_apart = true;
  by_step.front().jitter.sigma = 1e-9;  // all steps are traced
  const auto run = simulate_each_step(plan, by_step);
  const auto steps = traced_steps_of(run);
  ASSERT_GE(steps.size(), 7U);
  const auto draws = step_draws(plan, steps, true);
  const auto loss = attribute_loss({plan, draws});
  EXPECT_NEAR(loss.measured / run.step_seconds, 1, 0.03);
  EXPECT_NEAR(loss.simulated / loss.measured, 1, 0.03);
}

// With a run of one worker, all that is lost has a cause: what remains open is what the simulator itself is off by.
TEST(Loss, NothingIsLeftWhereTheSimulatorIsRight) {
  for (const auto* strategy : {"data[bucket=100KiB,first-bucket=10KiB]", "pipeline[schedule=1f1b,micro=6]", "sharded[level=2]"}) {
    const auto plan = plan_of(strategy, 4);
    auto costs = costs_of(plan, uneven);
    costs.harness.assign(4, {4e-5});
    const auto draws = step_draws(plan, {traced(plan, costs)}, true);
    LossInput input{plan, draws};
    input.one = OneWorker{9e-3, 0, 3e-4};
    input.contention.assign(4, 1.1);
    input.latency = [](const Task&, const std::vector<int>&) { return std::optional(1e-4); };
    const auto loss = attribute_loss(input);
    EXPECT_LT(std::abs(loss.not_explained), 0.02) << strategy;
    EXPECT_TRUE(loss.not_known.empty()) << strategy;
    expect_sums(loss, strategy);
  }
}

TEST(Loss, ASlowRankCostsWhatItIsAboveTheMean) {
  const auto plan = plan_of("data[overlap=off]", 3);
  const auto loss = report(plan, costs_of(plan, [](int worker, const Task& task) { return passes(task) * (worker == 2 ? 1.5 : 1); }));
  EXPECT_NEAR(loss.measured, 4.5e-3, 1e-8);
  EXPECT_NEAR(gain(loss, LossCause::unequal), 1e-3, 2e-5);
  EXPECT_EQ(loss.parts.front().cause, LossCause::unequal);
  // 10.5 ms of work in 4.5 ms.
  EXPECT_NEAR(loss.speedup, 10.5 / 4.5, 1e-3);
  EXPECT_NEAR(loss.parts.front().lost, 3 - 10.5 / 4.5, 1e-3);
}

TEST(Loss, ASlowLinkCostsItsBytesAndItsLatency) {
  const auto plan = plan_of("data[overlap=off,bucket=100KiB,first-bucket=10KiB]", 2);
  const auto buckets = static_cast<double>(plan.roles[0].buckets.size());
  ASSERT_GE(buckets, 3);
  const auto costs = costs_of(plan, [](int, const Task& task) { return task.kind == TaskKind::collective ? 5e-4 : passes(task); });
  const auto draws = step_draws(plan, {traced(plan, costs)}, true);
  const auto unknown = attribute_loss({plan, draws});
  EXPECT_NEAR(gain(unknown, LossCause::fabric), buckets * 5e-4, 0.02 * buckets * 5e-4);
  EXPECT_EQ(part_of(unknown, LossCause::latency), nullptr);
  LossInput input{plan, draws};
  input.latency = [](const Task&, const std::vector<int>&) { return std::optional(1e-4); };
  const auto known = attribute_loss(input);
  EXPECT_NEAR(gain(known, LossCause::fabric), buckets * 4e-4, 0.02 * buckets * 4e-4);
  EXPECT_NEAR(gain(known, LossCause::latency), buckets * 1e-4, 0.02 * buckets * 1e-4);
  EXPECT_GT(part_of(known, LossCause::fabric)->lost, 2 * part_of(known, LossCause::latency)->lost);
  EXPECT_GT(part_of(known, LossCause::latency)->lost, 0);
}

TEST(Loss, AStarvedLoaderSetsThePaceWhateverElseIsAway) {
  const auto plan = plan_of("data[overlap=off]", 2);
  auto costs = costs_of(plan, [](int, const Task& task) { return task.kind == TaskKind::collective ? 5e-4 : passes(task); });
  costs.loader.assign(2, {6e-3, {}});
  const auto loss = report(plan, costs);
  EXPECT_NEAR(loss.measured, 6e-3, 1e-7);
  const double work = 3e-3 + 5e-4 * static_cast<double>(plan.roles[0].buckets.size());
  EXPECT_NEAR(gain(loss, LossCause::loader), 6e-3 - work, 0.02 * 6e-3);
  // Faster wires gain nothing: batches come no sooner.
  EXPECT_NEAR(gain(loss, LossCause::fabric), 0, 0.02 * 6e-3);
  EXPECT_EQ(loss.parts.front().cause, LossCause::loader);
}

// Batches made in the steps themselves, a half of them by each of two: against one worker nothing is lost to that, and without it as much would be gained as they take.
TEST(Loss, ALoaderThatOneWorkerWaitsForAsWellIsGainedWithoutBeingLost) {
  const auto plan = plan_of("data[overlap=off]", 2);
  const auto costs = costs_of(plan, [](int, const Task& task) { return task.kind == TaskKind::load ? 2e-3 : task.kind == TaskKind::collective ? 1e-4 : passes(task); });
  const auto draws = step_draws(plan, {traced(plan, costs)}, false);
  LossInput input{plan, draws};
  input.one = OneWorker{6e-3, 4e-3, 0};
  const auto loss = attribute_loss(input);
  EXPECT_NEAR(gain(loss, LossCause::loader), 2e-3, 1e-5);
  EXPECT_NEAR(part_of(loss, LossCause::loader)->lost, 0, 1e-6);
  EXPECT_NEAR(part_of(loss, LossCause::loader)->speedup_without, 10e-3 / (loss.measured - 2e-3), 1e-3);
  expect_sums(loss, "a loader in the steps");
}

// One storage that gives a batch in 3 ms: of two workers each has one every 6 ms. A free loader gains that, and nothing else does.
TEST(Loss, StorageThatWorkersShareIsTheLoadersDoing) {
  const auto plan = plan_of("data[overlap=off]", 2);
  auto costs = costs_of(plan, [](int, const Task& task) { return task.kind == TaskKind::collective ? 1e-4 : passes(task); });
  const int storage = costs.resource("storage of place 0");
  costs.loader.assign(2, {3e-3, {{storage, 1}}});
  const auto loss = report(plan, costs);
  EXPECT_NEAR(loss.measured, 6e-3, 1e-6);
  const double work = 3e-3 + 1e-4 * static_cast<double>(plan.roles[0].buckets.size());
  EXPECT_NEAR(gain(loss, LossCause::loader), 6e-3 - work, 0.02 * 6e-3);
  EXPECT_EQ(loss.parts.front().cause, LossCause::loader);
  expect_sums(loss, "storage");
}

// (m + p - 1)(f + b), of which (p - 1)(f + b) are the bubble.
TEST(Loss, ABubbleCostsWhatIsPublished) {
  const auto plan = plan_of("pipeline[schedule=1f1b,micro=6]", 3);
  const auto loss = report(plan, costs_of(plan, [](int, const Task& task) { return passes(task); }));
  EXPECT_NEAR(loss.measured, 24e-3, 1e-7);
  EXPECT_NEAR(gain(loss, LossCause::bubble), 6e-3, 0.02 * 6e-3);
  EXPECT_EQ(loss.parts.front().cause, LossCause::bubble);
  EXPECT_NEAR(loss.parts.front().lost, 3 - 3 * 18.0 / 24, 0.01);
}

// Two of six steps have a hiccup on one worker, which all wait for.
TEST(Loss, JitterIsWhatDiffersFromStepToStep) {
  const auto plan = plan_of("data[overlap=off]", 2);
  std::vector<TracedStep> steps;
  for (int step = 1; step <= 6; ++step)
    steps.push_back(traced(plan, costs_of(plan, [&](int worker, const Task& task) { return passes(task) + (step % 3 == 0 && worker == step / 4 && task.kind == TaskKind::forward ? 1.5e-3 : 0); }), step));
  const auto draws = step_draws(plan, steps, true);
  const auto loss = attribute_loss({plan, draws});
  EXPECT_NEAR(loss.measured, 3.5e-3, 1e-7);
  EXPECT_NEAR(gain(loss, LossCause::jitter), 0.5e-3, 1e-5);
  EXPECT_EQ(loss.parts.front().cause, LossCause::jitter);
}

// Halves that take two thirds of the whole each; a third of that is the other's doing.
TEST(Loss, PartsAndContentionAreToldByOneWorkersRun) {
  const auto plan = plan_of("data[overlap=off]", 2);
  const auto draws = step_draws(plan, {traced(plan, costs_of(plan, [](int, const Task& task) { return passes(task); }))}, true);
  LossInput input{plan, draws};
  input.one = OneWorker{4.5e-3, 0, 0};
  const auto together = attribute_loss(input);
  EXPECT_NEAR(gain(together, LossCause::compute), 0.75e-3, 1e-5);
  EXPECT_EQ(together.not_known, (std::vector{LossCause::latency, LossCause::contention}));
  input.contention = {1.25, 1.25};
  const auto apart = attribute_loss(input);
  EXPECT_NEAR(gain(apart, LossCause::contention), 3e-3 * (1 - 1 / 1.25), 1e-5);
  EXPECT_NEAR(gain(apart, LossCause::compute), 3e-3 * (1 - 4.5 / (6 / 1.25)), 1e-5);
  EXPECT_NEAR(apart.speedup, 1.5, 1e-6);
  EXPECT_NEAR(part_of(apart, LossCause::contention)->lost + part_of(apart, LossCause::compute)->lost, 0.5, 1e-3);
}

// Two on one host slow each other by a quarter, the third has a host of its own: without contention all are as fast as it.
TEST(Loss, ContentionIsOfWorkersThatHaveCompany) {
  const auto plan = plan_of("data[overlap=off]", 3);
  const auto draws = step_draws(plan, {traced(plan, costs_of(plan, [](int worker, const Task& task) { return passes(task) * (worker < 2 ? 1.25 : 1); }))}, true);
  LossInput input{plan, draws};
  input.contention = {1.25, 1.25, 1};
  const auto loss = attribute_loss(input);
  EXPECT_NEAR(loss.measured, 3.75e-3, 1e-7);
  EXPECT_NEAR(gain(loss, LossCause::contention), 0.75e-3, 1e-6);
  EXPECT_NEAR(loss.one.compute, 9e-3, 1e-6) << "thrice what one alone takes";
  // That two are slower than the mean costs what it is above it, and nothing once they have no company.
  EXPECT_NEAR(gain(loss, LossCause::unequal), 0.25e-3, 1e-6);
  EXPECT_NEAR(part_of(loss, LossCause::contention)->lost + part_of(loss, LossCause::unequal)->lost, 3 - 9 / 3.75, 1e-3);
  expect_sums(loss, "company");
  // A run of one worker that takes a third longer: what parts cost is told of workers without company.
  input.one = OneWorker{6.75e-3, 0, 0};
  EXPECT_NEAR(gain(attribute_loss(input), LossCause::compute), 3.75e-3 * 0.25, 1e-6);
}

// A collective goes on beside the second half of backward, and each slows the other by a quarter: of what both took meanwhile a fifth is contention's. The first half was not slowed, so the collective begins when it did.
TEST(Loss, WhatIsComputedBesideACollectiveIsContention) {
  const auto plan = plan_of("data[bucket=100MiB,first-bucket=100MiB]", 2);
  ASSERT_EQ(plan.roles[0].buckets.size(), 1U);
  auto costs = costs_of(plan, [](int, const Task& task) { return task.kind == TaskKind::collective && task.cargo == Cargo::gradients ? 1.5e-3 : passes(task); });
  costs.ready = {{0.5}};
  const auto draws = step_draws(plan, {traced(plan, costs)}, true);
  ASSERT_EQ(draws.medians.overlaps[0].size(), 1U);
  const auto& overlap = draws.medians.overlaps[0][0];
  EXPECT_NEAR(overlap.seconds, 1e-3, 1e-8);
  EXPECT_NEAR(overlap.alone, 1e-3, 1e-8);
  EXPECT_NEAR(overlap.from, 0.5, 1e-6);
  EXPECT_NEAR(overlap.to, 1, 1e-6);
  LossInput input{plan, draws};
  input.contention = {1, 1};
  EXPECT_EQ(part_of(attribute_loss(input), LossCause::contention), nullptr) << "nothing is slowed";
  input.beside = [](int, const Task& task) { return task.cargo == Cargo::gradients ? Slowed{1.25, 1.25} : Slowed{}; };
  const auto loss = attribute_loss(input);
  // 1 forward, 1 until the event, 1.3 of the collective, which took 1.5 so far.
  EXPECT_NEAR(loss.measured, 3.5e-3, 1e-7);
  EXPECT_NEAR(gain(loss, LossCause::contention), 0.2e-3, 1e-6);
  // One worker alone computes 2 (3 - 0.2).
  EXPECT_NEAR(loss.one.compute, 5.6e-3, 1e-7);
  expect_sums(loss, "beside");
  // Only what computes is slowed: backward ends earlier, but the collective is what the step waits for.
  input.beside = [](int, const Task& task) { return task.cargo == Cargo::gradients ? Slowed{1.25, 1} : Slowed{}; };
  EXPECT_NEAR(gain(attribute_loss(input), LossCause::contention), 0, 1e-6);
}

// Two collectives at once slow what is computed meanwhile no more than one; each of them is slowed by itself.
TEST(Loss, CollectivesAtOnceAreBesideTheSameComputing) {
  std::vector<double> tasks{1e-3, 1e-3, 1e-3};
  drop_beside({{0, 1, 1e-3, 1e-3}, {0, 2, 1e-3, 0}}, {{}, {2, 2}, {2, 4}}, tasks);
  EXPECT_EQ(tasks, (std::vector{0.5e-3, 0.5e-3, 0.25e-3}));
}

// Updates that each does all over: one worker does them once.
TEST(Loss, WhatIsNotDividedIsLost) {
  const auto plan = plan_of("data[overlap=off]", 4);
  double updates = 0;
  for (const auto& task : plan.roles[0].tasks) updates += task.kind == TaskKind::update;
  const auto loss = report(plan, costs_of(plan, [&](int, const Task& task) { return task.kind == TaskKind::update ? 1e-3 / updates : passes(task); }));
  EXPECT_NEAR(loss.one.seconds(), 13e-3, 1e-6);
  EXPECT_NEAR(loss.speedup, 13.0 / 4, 1e-3);
  EXPECT_EQ(loss.parts.front().cause, LossCause::undivided);
  EXPECT_NEAR(loss.parts.front().lost, 0.75, 1e-3);
}

TEST(Loss, OneWorkerLosesNothing) {
  const auto plan = plan_of("single", 1);
  const auto loss = report(plan, costs_of(plan, [](int, const Task& task) { return passes(task); }));
  EXPECT_NEAR(loss.speedup, 1, 1e-6);
  EXPECT_NEAR(loss.loss(), 0, 1e-6);
}

// Handing a message over keeps the stream, and nobody else: it is on its way by then.
TEST(Loss, HandingOverKeepsWhoHandsOver) {
  const auto plan = plan_of("pipeline[schedule=1f1b,micro=2]", 2);
  const auto costs = [&](int worker) {
    auto out = costs_of(plan, [](int, const Task& task) { return passes(task); });
    for (std::size_t t = 0; t < out.tasks[static_cast<std::size_t>(worker)].size(); ++t)
      if (plan.role_of(worker).tasks[t].kind == TaskKind::forward) out.tasks[static_cast<std::size_t>(worker)][t].handing = 0.5e-3;
    return simulate_steps(plan, out, 3).step_seconds;
  };
  // Of (m + p - 1)(f + b) = 9 ms stage 0 waits for 2 before its first backward, and for 1 before its second: what it hands over meanwhile costs nothing.
  EXPECT_NEAR(costs(0), 9e-3, 1e-9);
  // The last stage never waits but for the first forward.
  EXPECT_NEAR(costs(1), 10e-3, 1e-9);
}

TEST(Loss, WantsSteps) { EXPECT_THROW(step_draws(plan_of("data", 2), {}, true), Error); }

LossReport report_of_many(const Plan& plan, const StepCosts& costs) {
  const auto draws = step_draws(plan, traced_steps_of(plan, costs), true);
  return attribute_loss({plan, draws});
}

// Steps that run into each other, and those of workers that wait for nobody: read from their trace, they are simulated again.
TEST(AsynchronousLoss, ItsTraceIsSimulatedAgain) {
  for (const auto* strategy : {"pipeline[schedule=pipedream]", "pipeline[schedule=pipedream-2bw,micro=8]", "pipeline[schedule=pipedream,replicas=3/1]", "parameter-server[async]", "parameter-server[async,servers=2]",
                               "parameter-server[stale=2,servers=2]"}) {
    const auto plan = plan_of(strategy, 4);
    auto costs = costs_of(plan, uneven);
    costs.harness.assign(costs.harness.size(), {4e-5});
    const auto loss = report_of_many(plan, costs);
    // Whose turn comes when at a server is not the same from other steps on.
    EXPECT_NEAR(loss.simulated / loss.measured, 1, plan.serving.servers > 0 ? 0.04 : 0.01) << strategy;
    EXPECT_EQ(loss.apart, plan.serving.servers > 0) << strategy;
    EXPECT_EQ(loss.worker_steps.size(), 4U) << strategy;
    expect_sums(loss, strategy);
  }
}

// Balanced stages never wait once the pipeline is full; what the slowest of others takes is what all take.
TEST(AsynchronousLoss, APipelineWithoutAFlushHasNoBubble) {
  for (const auto* strategy : {"pipeline[schedule=pipedream]", "pipeline[schedule=pipedream-2bw,micro=6]"}) {
    const auto plan = plan_of(strategy, 3);
    const auto loss = report_of_many(plan, costs_of(plan, [](int, const Task& task) { return passes(task); }));
    EXPECT_NEAR(loss.measured, plan.micro_batches * 3e-3, 1e-7) << strategy;
    EXPECT_NEAR(loss.speedup, 3, 1e-3) << strategy;
    EXPECT_NEAR(gain(loss, LossCause::bubble), 0, 1e-6) << strategy;
    const auto slow = report_of_many(plan, costs_of(plan, [](int worker, const Task& task) { return passes(task) * (worker == 1 ? 1.6 : 1); }));
    EXPECT_NEAR(slow.measured, plan.micro_batches * 4.8e-3, 1e-6) << strategy;
    // 3.6 ms each.
    EXPECT_NEAR(gain(slow, LossCause::unequal), plan.micro_batches * 1.2e-3, plan.micro_batches * 2e-5) << strategy;
    EXPECT_EQ(slow.parts.front().cause, LossCause::unequal) << strategy;
    EXPECT_NEAR(slow.parts.front().lost, 3 - 3 * 3.6 / 4.8, 0.02) << strategy;
  }
}

// A message takes longer than there are micro-batches on the way to hide it: what is waited for is the bubble, and the fabric's doing.
TEST(AsynchronousLoss, LongMessagesAreWaitedForAllTheSame) {
  const auto plan = plan_of("pipeline[schedule=pipedream]", 2);
  const auto loss = report_of_many(plan, costs_of(plan, [](int, const Task& task) { return is_of_stages(task) ? 4e-3 : passes(task); }));
  // There and back 6 ms of passes and 8 of messages, for two batches on the way: 7 ms at least.
  EXPECT_GT(loss.measured, 6.9e-3);
  EXPECT_NEAR(gain(loss, LossCause::fabric), loss.measured - 3e-3, 1e-4);
  EXPECT_NEAR(gain(loss, LossCause::bubble), loss.measured - 3e-3, 1e-4);
  expect_sums(loss, "messages");
}

// Two workers that never wait are twice as fast as one, whatever the one of them takes; within a bound the slower sets the pace.
TEST(AsynchronousLoss, ASlowWorkerSlowsNobodyUnlessThereIsABound) {
  const auto costs = [](const Plan& plan, double slow) { return costs_of(plan, [&](int worker, const Task& task) { return passes(task) * (worker == 1 ? slow : 1); }); };
  const auto free = plan_of("parameter-server[async]", 2);
  const auto equal = report_of_many(free, costs(free, 1));
  EXPECT_NEAR(equal.measured, 3e-3, 1e-7);
  EXPECT_NEAR(equal.speedup, 2, 1e-3);
  for (const auto& part : equal.parts) EXPECT_NEAR(part.lost, 0, 1e-3) << name(part.cause);
  const auto apart = report_of_many(free, costs(free, 3));
  EXPECT_NEAR(apart.worker_steps[0], 3e-3, 1e-7);
  EXPECT_NEAR(apart.worker_steps[1], 9e-3, 1e-7);
  // A batch of each in 3 and in 9 ms: two batches in 4.5.
  EXPECT_NEAR(apart.measured, 4.5e-3, 1e-6);
  EXPECT_NEAR(apart.simulated, 4.5e-3, 1e-5);
  EXPECT_NEAR(apart.speedup, 2, 1e-3);
  EXPECT_NEAR(gain(apart, LossCause::unequal), 0, 5e-5);
  const auto bound = plan_of("parameter-server[stale=1]", 2);
  const auto bounded = report_of_many(bound, costs(bound, 3));
  EXPECT_NEAR(bounded.measured, 9e-3, 1e-5);
  EXPECT_NEAR(bounded.simulated, 9e-3, 1e-5);
  EXPECT_NEAR(bounded.speedup, 1, 1e-2);
  EXPECT_NEAR(gain(bounded, LossCause::unequal), 4.5e-3, 5e-5);
  EXPECT_EQ(bounded.parts.front().cause, LossCause::unequal);
  EXPECT_NEAR(bounded.parts.front().lost, 1, 0.02);
  expect_sums(bounded, "stale");
}

// A server applies for 2 ms what each of four workers pushes every 3 ms: all push together, and are given parameters after the last, 11 ms a step.
TEST(AsynchronousLoss, WhatIsWaitedForAServersTurnIsItsUpdates) {
  const auto plan = plan_of("parameter-server[async]", 4);
  const auto loss = report_of_many(plan, costs_of(plan, [](int, const Task& task) { return task.kind == TaskKind::update ? 2e-3 : passes(task); }));
  EXPECT_NEAR(loss.measured, 11e-3, 1e-6);
  EXPECT_NEAR(loss.simulated, 11e-3, 1e-5);
  // 12 ms of passes and one update; divided by four it is half a millisecond of each.
  EXPECT_NEAR(loss.one.seconds(), 14e-3, 1e-4);
  EXPECT_EQ(loss.parts.front().cause, LossCause::undivided);
  EXPECT_NEAR(gain(loss, LossCause::undivided), 11e-3 - 5e-3, 1e-4);
  expect_sums(loss, "turns");
}

}  // namespace
}  // namespace ddl
