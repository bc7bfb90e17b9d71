#include "ddl/predict/step/simulate_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "ddl/core/error.h"
#include "ddl/measure/ledger.h"
#include "ddl/nn/builtin.h"
#include "ddl/plan/meetings.h"
#include "ddl/strategy/builtin.h"

namespace ddl {
namespace {

ModelGraph make_model(const std::string& text) {
  const auto spec = parse_spec(text);
  return builtin_models().at(spec.name).make(spec, {1, 28, 28, 10});
}

Plan plan_of(const std::string& strategy, int workers, const std::string& model = "mlp[layers=8]") {
  const auto graph = make_model(model);
  StrategyInput input{graph, workers, 64, 4, parse_spec(strategy)};
  return builtin_strategies().at(input.spec.name).make(input);
}

/// By task; 0 for what it does not name.
StepCosts costs_of(const Plan& plan, std::vector<Actor> actors, const std::function<double(const Task&)>& seconds) {
  StepCosts costs;
  costs.actors = std::move(actors);
  for (const auto& actor : costs.actors) {
    auto& own = costs.tasks.emplace_back();
    for (const auto& task : plan.roles[static_cast<std::size_t>(actor.role)].tasks) own.push_back({seconds(task)});
  }
  for (const auto& role : plan.roles) costs.ready.emplace_back(role.buckets.size(), 1.0);
  costs.harness.assign(costs.actors.size(), {});
  costs.loader.assign(costs.actors.size(), {});
  return costs;
}

double passes(const Task& task, double forward, double backward) {
  if (task.kind == TaskKind::forward) return forward;
  if (task.kind == TaskKind::backward) return backward;
  return 0;
}

double simulated(const std::string& strategy, int workers, const std::function<double(const Task&)>& seconds) {
  const auto plan = plan_of(strategy, workers);
  const double by_role = simulate_steps(plan, costs_of(plan, roles_as_actors(plan), seconds), 4).step_seconds;
  const double by_worker = simulate_steps(plan, costs_of(plan, workers_as_actors(plan), seconds), 4).step_seconds;
  EXPECT_NEAR(by_role, by_worker, 1e-9 * by_worker) << strategy;
  return by_worker;
}

TEST(SimulateStep, OneWorkerTakesTheSumOfItsTasks) {
  EXPECT_NEAR(simulated("single", 1, [](const Task& task) { return task.kind == TaskKind::update ? 0.25 : passes(task, 1, 2); }), 3.25, 1e-9);
}

// (m + p - 1)(f + b): Huang et al., GPipe, 2019; the same for 1F1B (Narayanan et al. 2021).
TEST(SimulateStep, PipelinesHaveTheirPublishedBubbles) {
  for (const auto* schedule : {"gpipe", "1f1b"})
    EXPECT_NEAR(simulated(std::string("pipeline[schedule=") + schedule + ",micro=6]", 4, [](const Task& task) { return passes(task, 1, 2); }), (6 + 4 - 1) * 3.0, 1e-9) << schedule;
  // Two chunks of half the work each: m (f + b) + (p - 1)(f + b) / v.
  EXPECT_NEAR(simulated("pipeline[schedule=interleaved-1f1b,micro=8,chunks=2]", 4, [](const Task& task) { return passes(task, 0.5, 1); }), 8 * 3.0 + 3 * 3.0 / 2, 1e-9);
}

// f + max over buckets: each begins when its event is raised and the one before is over.
TEST(SimulateStep, BucketsGoWhileBackwardRuns) {
  const auto plan = plan_of("data[bucket=100KiB,first-bucket=10KiB]", 3);
  ASSERT_GE(plan.roles[0].buckets.size(), 4U);
  auto costs = costs_of(plan, workers_as_actors(plan), [](const Task& task) { return task.kind == TaskKind::collective ? 0.5 : passes(task, 1, 2); });
  const auto buckets = plan.roles[0].buckets.size();
  for (std::size_t b = 0; b < buckets; ++b) costs.ready[0][b] = static_cast<double>(b + 1) / static_cast<double>(buckets);
  double over = 0;
  for (std::size_t b = 0; b < buckets; ++b) over = std::max(over, 2 * costs.ready[0][b]) + 0.5;
  EXPECT_NEAR(simulate_steps(plan, costs, 3).step_seconds, 1 + std::max(2.0, over), 1e-9);
  // With nothing to overlap it is the sum.
  const auto after = plan_of("data[bucket=100KiB,first-bucket=10KiB,overlap=off]", 3);
  const auto all = costs_of(after, workers_as_actors(after), [](const Task& task) { return task.kind == TaskKind::collective ? 0.5 : passes(task, 1, 2); });
  EXPECT_NEAR(simulate_steps(after, all, 3).step_seconds, 3 + 0.5 * static_cast<double>(buckets), 1e-9);
}

// What lasts a step is waited for once. Of what comes and goes, the slower of both is waited for at each of n meetings: of pieces with variances that add up to the same that is sqrt(n) times as much.
TEST(SimulateStep, WorkersThatMeetOftenWaitForWhatComesAndGoes) {
  const auto waits = [](const Plan& plan, double brief, double each) {
    auto costs = costs_of(plan, workers_as_actors(plan), [&](const Task& task) { return passes(task, each, each); });
    double all = 0;
    for (const auto& task : costs.tasks[0]) all += task.seconds;
    costs.jitter = {0.02, 0, brief, all};
    const auto range = steps_to_simulate(plan, costs.jitter);
    return simulate_steps(plan, costs, range.steps, range.first).step_seconds / all - 1;
  };
  const auto often = plan_of("tensor", 2), once = plan_of("data[overlap=off]", 2);
  int meetings = 0;
  for (const auto& task : often.roles[0].tasks) meetings += task.kind == TaskKind::collective && task.layer != kNone;
  ASSERT_GE(meetings, 8);
  const double slower = 0.02 / std::sqrt(M_PI);  // of two
  EXPECT_NEAR(waits(often, 0, 1), slower, 0.25 * slower);
  EXPECT_NEAR(waits(once, 0, 1), slower, 0.25 * slower);
  EXPECT_NEAR(waits(once, 1, 1), slower, 0.25 * slower);
  // Passes between two meetings are one piece or two.
  EXPECT_GT(waits(often, 1, 1), 0.7 * std::sqrt(meetings) * slower);
  EXPECT_LT(waits(often, 1, 1), 1.2 * std::sqrt(meetings + 1) * slower);
  EXPECT_GT(waits(often, 0.5, 1), waits(often, 0, 1));
}

// The slowest worker sets the pace; the others' ledgers have what they wait.
TEST(SimulateStep, OthersWaitForAStraggler) {
  const auto plan = plan_of("data[overlap=off]", 3);
  auto costs = costs_of(plan, workers_as_actors(plan), [](const Task& task) { return passes(task, 1, 2); });
  for (std::size_t t = 0; t < costs.tasks[2].size(); ++t) costs.tasks[2][t].seconds *= 1.5;
  const auto run = simulate_steps(plan, costs, 3);
  EXPECT_NEAR(run.step_seconds, 4.5, 1e-9);
  const auto ledger = fold(run.trace, 0, run.last[0].begin, run.last[0].end);
  EXPECT_NEAR(ledger[Cause::wait], 1.5, 1e-6);
  EXPECT_NEAR(ledger[Cause::forward] + ledger[Cause::backward], 3, 1e-6);
  EXPECT_NEAR(ledger.wall, 4.5, 1e-6);
  EXPECT_NEAR(fold(run.trace, 2, run.last[2].begin, run.last[2].end)[Cause::wait], 0, 1e-6);
}

// Ledgers of pipelines have the bubble: (p - 1)(f + b) of each stage.
TEST(SimulateStep, TheLedgerShowsTheBubble) {
  const auto plan = plan_of("pipeline[schedule=1f1b,micro=6]", 3);
  const auto run = simulate_steps(plan, costs_of(plan, workers_as_actors(plan), [](const Task& task) { return passes(task, 1, 2); }), 3);
  for (int worker = 0; worker < 3; ++worker) {
    const auto& period = run.last[static_cast<std::size_t>(worker)];
    const auto ledger = fold(run.trace, worker, period.begin, period.end);
    EXPECT_NEAR(ledger.wall, 24, 1e-6) << worker;
    EXPECT_NEAR(ledger[Cause::bubble] + ledger[Cause::wait], 6, 1e-6) << worker;
  }
}

// Two workers' messages over one link take twice as long.
TEST(SimulateStep, CollectivesShareALink) {
  const auto mesh = plan_of("hybrid[data=2,pipeline=2,micro=2]", 4);
  auto costs = costs_of(mesh, workers_as_actors(mesh), [](const Task& task) { return task.kind == TaskKind::collective && task.cargo == Cargo::gradients ? 3.0 : passes(task, 1, 1); });
  const double apart = simulate_steps(mesh, costs, 3).step_seconds;
  const int link = costs.resource("link");
  for (std::size_t a = 0; a < costs.actors.size(); ++a)
    for (std::size_t t = 0; t < costs.tasks[a].size(); ++t)
      if (const auto& task = mesh.roles[static_cast<std::size_t>(costs.actors[a].role)].tasks[t]; task.kind == TaskKind::collective && task.cargo == Cargo::gradients) costs.tasks[a][t].demands = {{link, 0.5}};
  EXPECT_GT(simulate_steps(mesh, costs, 3).step_seconds, apart * (1 + 1e-3));
}

// A loader that makes a batch in 4 s cannot feed steps of 3, however far ahead it is.
TEST(SimulateStep, ASlowLoaderSetsThePace) {
  const auto plan = plan_of("data", 2);
  auto costs = costs_of(plan, workers_as_actors(plan), [](const Task& task) { return passes(task, 1, 2); });
  costs.loader.assign(2, {4, {}});
  costs.prefetch = 2;
  const auto run = simulate_steps(plan, costs, 6);
  EXPECT_NEAR(run.ends.back() - run.ends[4], 4, 1e-9);
  EXPECT_NEAR(fold(run.trace, 0, run.last[0].begin, run.last[0].end)[Cause::load], 1, 1e-6);
}

// Averaged every third step: a third of a collective in each.
TEST(SimulateStep, TasksOfSomeStepsCountInThoseAlone) {
  const auto plan = plan_of("local[every=3]", 2);
  const auto range = steps_to_simulate(plan);
  EXPECT_EQ((range.steps - 1) % 3, 0);
  const auto costs = costs_of(plan, workers_as_actors(plan), [](const Task& task) { return task.kind == TaskKind::collective && task.cargo == Cargo::parameters ? 0.6 : passes(task, 1, 2); });
  std::size_t averages = 0;
  for (const auto& task : plan.roles[0].tasks) averages += task.kind == TaskKind::collective && task.cargo == Cargo::parameters;
  EXPECT_NEAR(simulate_steps(plan, costs, range.steps, range.first).step_seconds, 3 + 0.2 * static_cast<double>(averages), 1e-9);
}

// Whatever the strategy, workers and roles come to the same, and nothing comes to a stop.
TEST(SimulateStep, EveryStrategyRunsByRoleAndByWorker) {
  for (const auto* strategy : {"data", "model", "pipeline[schedule=zbv,micro=6]", "pipeline[schedule=dualpipev,micro=6]", "pipeline[schedule=looped-bfs,micro=4,chunks=2]", "pipeline[schedule=zb-h1,micro=6]",
                               "sharded[level=1]", "sharded[level=2]", "sharded[level=3,unit=1]", "local[every=2,average=gossip]", "parameter-server[servers=2]", "tensor", "hybrid[data=2,pipeline=2,micro=4]",
                               "hybrid[pipeline=2,tensor=2,micro=4]", "hybrid[data=2,sharded=2]", "data[in-process=parallel]", "pipeline[replicas=3/1,micro=6]"})
    EXPECT_GT(simulated(strategy, 4, [](const Task& task) { return communicates(task) ? 0.01 : passes(task, 1, 2) + (task.kind == TaskKind::backward_input || task.kind == TaskKind::backward_weight ? 1 : 0); }), 3 - 1e-9) << strategy;
}

// Each step takes what it says; and who is late at the end of one step hides what another is late by in the next.
TEST(SimulateStep, StepsMayDiffer) {
  const auto plan = plan_of("data[overlap=off]", 2);
  std::vector<StepCosts> steps(4, costs_of(plan, workers_as_actors(plan), [](const Task& task) { return passes(task, 1, 2); }));
  steps[1].harness[0] = {0.5};
  for (auto& task : steps[2].tasks[1]) task.seconds *= 1.25;
  const auto run = simulate_each_step(plan, steps);
  EXPECT_NEAR(run.ends[0], 3, 1e-9);
  EXPECT_NEAR(run.ends[1], 6.5, 1e-9);
  EXPECT_NEAR(run.ends[2], 9.75, 1e-9);
  EXPECT_NEAR(run.step_seconds, 3.25, 1e-9);
  EXPECT_THROW(simulate_each_step(plan, {}), Error);
  steps[1].harness.clear();
  EXPECT_THROW(simulate_each_step(plan, steps), Error);
}

// Of a collective whose ends were seen apart each goes on after its own; of any other when the longest is over.
TEST(SimulateStep, CollectivesMayEndApart) {
  const auto plan = plan_of("data[overlap=off]", 2);
  const auto last = static_cast<int>(plan.roles[0].buckets.size()) - 1;
  const auto step = [&](double first, double second, bool apart, std::vector<Demand> demands = {}) {
    auto costs = costs_of(plan, workers_as_actors(plan), [](const Task& task) { return passes(task, 1, 2); });
    costs.ends_apart = apart;
    for (std::size_t w = 0; w < 2; ++w)
      for (std::size_t t = 0; t < costs.tasks[w].size(); ++t) {
        const auto& task = plan.roles[0].tasks[t];
        if (task.kind == TaskKind::forward && w == 0) costs.tasks[w][t].seconds += 0.5;
        if (task.kind == TaskKind::collective && task.bucket == last) costs.tasks[w][t] = {w == 0 ? first : second, demands};
      }
    if (!demands.empty()) costs.resource("wire");
    return simulate_steps(plan, costs, 4).step_seconds;
  };
  EXPECT_NEAR(step(0.5, 1, true), 4, 1e-9) << "who computes for longer has its results sooner";
  EXPECT_NEAR(step(0, 1, true), 4, 1e-9);
  EXPECT_NEAR(step(1, 0.5, true), 4.5, 1e-9);
  EXPECT_NEAR(step(1, 1, true), 4.5, 1e-9);
  EXPECT_NEAR(step(0.5, 1, false), 4.5, 1e-9);
  EXPECT_NEAR(step(0.5, 1, false, {{0, 0.5}}), 4.5, 1e-9);
}

/// The step of an asynchronous plan, or of workers that step apart, each of them so many times as slow.
StepSimulation asynchronous(const std::string& strategy, int workers, const std::function<double(const Task&)>& seconds, const std::vector<double>& slow = {}, double loader = 0) {
  const auto plan = plan_of(strategy, workers);
  auto costs = costs_of(plan, workers_as_actors(plan), seconds);
  for (std::size_t a = 0; a < slow.size(); ++a)
    for (std::size_t t = 0; t < costs.tasks[a].size(); ++t)
      if (!communicates(plan.roles[static_cast<std::size_t>(costs.actors[a].role)].tasks[t])) costs.tasks[a][t].seconds *= slow[a];
  if (loader > 0) costs.loader.front() = {loader, {}};
  return simulate_steps(plan, costs, steps_to_simulate(plan).steps);
}

// Once it is full, a pipeline without a flush gives a batch whenever its slowest stage has done one.
TEST(SimulateAsynchronous, APipelineIsAsFastAsItsSlowestStage) {
  const auto seconds = [](const Task& task) { return task.kind == TaskKind::update ? 0.5 : passes(task, 1, 2); };
  EXPECT_NEAR(asynchronous("pipeline[schedule=pipedream]", 4, seconds).step_seconds, 3.5, 1e-9);
  EXPECT_NEAR(asynchronous("pipeline[schedule=pipedream-2bw,micro=4]", 4, [](const Task& task) { return passes(task, 1, 2); }).step_seconds, 12, 1e-9);
  EXPECT_NEAR(asynchronous("pipeline[schedule=pipedream]", 4, seconds, {1, 1, 2, 1}).step_seconds, 7, 1e-9);
  const auto run = asynchronous("pipeline[schedule=pipedream]", 3, seconds, {1, 2, 1});
  for (int worker = 0; worker < 3; ++worker) {
    const auto a = static_cast<std::size_t>(worker);
    const auto ledger = fold(run.trace, worker, run.traced[a].begin, run.traced[a].end);
    const auto steps = static_cast<double>(run.steps[a].size());
    EXPECT_NEAR(ledger.wall / steps, 7, 1e-6) << worker;
    EXPECT_NEAR((ledger[Cause::forward] + ledger[Cause::backward] + ledger[Cause::update]) / steps, worker == 1 ? 7 : 3.5, 1e-6) << worker;
    EXPECT_NEAR((ledger[Cause::bubble] + ledger[Cause::wait]) / steps, worker == 1 ? 0 : 3.5, 1e-6) << worker;
  }
}

TEST(SimulateAsynchronous, ASlowLoaderSetsItsPace) {
  EXPECT_NEAR(asynchronous("pipeline[schedule=pipedream]", 3, [](const Task& task) { return passes(task, 1, 2); }, {}, 5).step_seconds, 5, 1e-9);
}

// 3 s of passes, and the server's 1 s for what each pushes. Who push together are given parameters once the server has done what all of them pushed, and push together again; who came after each other do not meet.
TEST(SimulateAsynchronous, AServerDoesOneThingAtATime) {
  const auto seconds = [](const Task& task) { return task.kind == TaskKind::update ? 1.0 : passes(task, 1, 2); };
  for (const int workers : {2, 4, 8}) EXPECT_NEAR(asynchronous("parameter-server[async]", workers, seconds).step_seconds, 3 + workers, 1e-9) << workers;
  const auto plan = plan_of("parameter-server[async]", 2);
  std::vector<StepCosts> steps(2, costs_of(plan, workers_as_actors(plan), seconds));
  steps[0].harness[1] = {1.5};
  EXPECT_NEAR(simulate_each_step(plan, steps, 0, 26).step_seconds, 4, 1e-9);
}

TEST(SimulateAsynchronous, WorkersStepByThemselvesUpToABound) {
  const auto seconds = [](const Task& task) { return passes(task, 1, 2); };
  const auto free = asynchronous("parameter-server[async]", 3, seconds, {1, 2, 4});
  const auto mean_step = [](const StepSimulation& run, std::size_t a) { return 1e-9 * static_cast<double>(run.traced[a].end - run.traced[a].begin) / static_cast<double>(run.steps[a].size()); };
  for (std::size_t a = 0; a < 3; ++a) EXPECT_NEAR(mean_step(free, a), 3 * std::pow(2.0, static_cast<double>(a)), 1e-6);
  EXPECT_NEAR(free.step_seconds, 3 / (1 / 3.0 + 1 / 6.0 + 1 / 12.0), 1e-6);
  const auto bounded = asynchronous("parameter-server[stale=2]", 3, seconds, {1, 2, 4});
  for (std::size_t a = 0; a < 3; ++a) EXPECT_NEAR(mean_step(bounded, a), 12, 0.1) << a;
  EXPECT_NEAR(bounded.step_seconds, 12, 0.1);
}

TEST(SimulateAsynchronous, ASpanIsOfTheStepThatItsMessageIsReceivedIn) {
  const auto run = asynchronous("pipeline[schedule=pipedream]", 3, [](const Task& task) { return communicates(task) ? 0.25 : passes(task, 1, 2); });
  std::map<std::pair<int, std::uint32_t>, int> ends;
  for (const auto& span : run.trace)
    if (span.stream == Stream::communication) ++ends[{span.step, span.meeting}];
  EXPECT_GT(ends.size(), 20U);
  for (const auto& [event, count] : ends) EXPECT_GE(count, 2) << event.first;
}

TEST(SimulateAsynchronous, FewStepsTellNothing) {
  for (const auto* strategy : {"pipeline[schedule=pipedream]", "parameter-server[async]"}) {
    const auto plan = plan_of(strategy, 2);
    const auto costs = costs_of(plan, workers_as_actors(plan), [](const Task& task) { return passes(task, 1, 2); });
    EXPECT_THROW(simulate_steps(plan, costs, 2), Error) << strategy;
  }
}

TEST(SimulateStep, CostsMustFitThePlan) {
  const auto plan = plan_of("data", 2);
  EXPECT_THROW(simulate_steps(plan, {}, 3), Error);
  EXPECT_THROW(simulate_steps(plan, costs_of(plan, roles_as_actors(plan), [](const Task&) { return 1.0; }), 0), Error);
}

}  // namespace
}  // namespace ddl
