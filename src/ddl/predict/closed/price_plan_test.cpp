#include "ddl/predict/closed/price_plan.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "ddl/core/error.h"
#include "ddl/nn/builtin.h"
#include "ddl/plan/meetings.h"
#include "ddl/predict/closed/longest_path.h"
#include "ddl/predict/step/server_turns.h"
#include "ddl/predict/step/simulate_step.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/choices.h"
#include "ddl/strategy/pipeline/schedules.h"

// Two readings of one plan: in closed form, and event by event.
namespace ddl {
namespace {

struct Case {
  const char* strategy;
  int workers;
  const char* model = "mlp[layers=8]";
  SampleShape shape = {1, 28, 28, 10};
  int accumulate = 1;
};

constexpr SampleShape kWords{.classes = 256, .objective = Objective::language, .target_length = 17};
constexpr const char* kGpt = "gpt[hidden=64,layers=8,heads=4,seq=16,vocab=256]";

const Case kCases[] = {
    {"single", 1}, {"data", 4}, {"data[overlap=off]", 4}, {"data[bucket=100KiB,first-bucket=10KiB]", 4}, {"data[in-process=mirrored]", 4}, {"model", 4}, {"pipeline[schedule=gpipe,micro=8]", 4},
    {"pipeline[schedule=1f1b,micro=8]", 4}, {"pipeline[schedule=1f1b,micro=24]", 4}, {"pipeline[schedule=1f1b,micro=2]", 4}, {"pipeline[schedule=1f1b,micro=1]", 4}, {"pipeline[schedule=gpipe,micro=2]", 4}, {"pipeline[schedule=interleaved-1f1b,micro=8,chunks=2]", 4},
    {"pipeline[schedule=looped-bfs,micro=8,chunks=2]", 4}, {"pipeline[schedule=zb-h1,micro=8]", 4}, {"pipeline[schedule=zbv,micro=8]", 4}, {"pipeline[schedule=dualpipev,micro=8]", 4},
    {"hybrid[data=2,pipeline=4,schedule=zb-h1,micro=8]", 8}, {"tensor", 4, kGpt, kWords}, {"sharded[level=1]", 4}, {"sharded[level=2]", 4}, {"local[every=4]", 4},
    {"hybrid[data=2,tensor=2]", 4, kGpt, kWords}, {"hybrid[data=2,pipeline=4,micro=8]", 8}, {"model[balance=count]", 4, "mlp[layers=8]", {1, 28, 28, 10}, 3},
    {"data[bucket=1MiB]", 4, "mlp[layers=8]", {1, 28, 28, 10}, 3}, {"sharded[level=1,bucket=1MiB]", 4, "mlp[layers=8]", {1, 28, 28, 10}, 3},
    {"sharded[level=2,bucket=1MiB]", 4, "mlp[layers=8]", {1, 28, 28, 10}, 3}, {"sharded[level=2,overlap=off]", 4},
    {"sharded[level=2,bucket=5MiB,overlap=off]", 4, "mlp[layers=8]", {1, 28, 28, 10}, 3}, {"sharded[level=3]", 4}, {"sharded[level=3,prefetch=0]", 4},
    {"sharded[level=3,prefetch=1]", 4, "mlp[layers=8]", {1, 28, 28, 10}, 3}, {"parameter-server[servers=3]", 4, "mlp[layers=8]", {1, 28, 28, 10}, 3}, {"sharded[level=3,prefetch=3]", 4},
    {"sharded[level=3,reshard=off]", 4}, {"sharded[level=3,unit=1]", 4, kGpt, kWords}, {"hybrid[data=2,sharded=2]", 4}, {"parameter-server", 4}, {"parameter-server[servers=2]", 4},
    {"parameter-server[servers=4]", 4}, {"parameter-server[async,servers=2]", 4}, {"parameter-server[stale=2,servers=2]", 4}, {"pipeline[schedule=pipedream]", 4},
    {"pipeline[schedule=pipedream-2bw,micro=8]", 4}, {"local[average=gossip,every=2]", 4}, {"local[average=gossip,topology=exponential,every=1]", 4},
    {"local[average=gossip,momentum=average,every=2]", 4}, {"hybrid[data=2,pipeline=2,tensor=2,micro=8]", 8, kGpt, kWords},
    {"data[in-process=parallel]", 3}, {"data[in-process=parallel,overlap=on]", 4, "mlp[layers=8]", {1, 28, 28, 10}, 2}, {"pipeline[replicas=2/1,micro=6]", 3}, {"pipeline[schedule=gpipe,replicas=3/1,micro=6]", 4},
    {"pipeline[schedule=pipedream,replicas=2/1,micro=6]", 3}, {"pipeline[schedule=pipedream,replicas=1/2/1]", 4}, {"pipeline[schedule=pipedream-2bw,replicas=2/1,micro=6]", 3}};

std::string test_name(const testing::TestParamInfo<Case>& of) {
  std::string name = of.param.strategy;
  for (auto& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

/// Stages alike, what they reduce small beside what they compute, buckets ready as evenly as they are many. A message between stages takes `message` times as long as a forward.
StepCosts balanced_costs(const Plan& plan, double message = 0) {
  StepCosts costs;
  costs.actors = roles_as_actors(plan);
  for (const auto& actor : costs.actors) {
    const auto& role = plan.roles[static_cast<std::size_t>(actor.role)];
    auto& own = costs.tasks.emplace_back();
    int forwards = 0;
    for (const auto& task : role.tasks) forwards += task.kind == TaskKind::forward;
    for (const auto& task : role.tasks) {
      double seconds = 0;
      const double pass = 12.0 / forwards;
      switch (task.kind) {
        case TaskKind::load: seconds = 0.05; break;
        case TaskKind::forward: seconds = pass; break;
        case TaskKind::backward: seconds = 2 * pass; break;
        case TaskKind::backward_input:
        case TaskKind::backward_weight: seconds = pass; break;
        case TaskKind::update: seconds = 0.02; break;
        // What goes to servers or neighbours is like a collective.
        case TaskKind::send:
        case TaskKind::receive: seconds = task.cargo == Cargo::activations || task.cargo == Cargo::activation_gradients ? message * pass : 0.2 + 0.1 * task.bucket; break;
        case TaskKind::average: seconds = 0.03; break;
        case TaskKind::collective: seconds = task.layer == kNone ? 0.3 : 0.01 * pass; break;
        default: break;
      }
      own.push_back({seconds});
    }
    costs.harness.push_back({0.01});
    costs.loader.emplace_back();
  }
  for (const auto& role : plan.roles) {
    auto& ready = costs.ready.emplace_back();
    for (std::size_t b = 0; b < role.buckets.size(); ++b) ready.push_back(static_cast<double>(b + 1) / static_cast<double>(role.buckets.size()));
  }
  return costs;
}

Plan planned(const Case& one) {
  const auto model = parse_spec(one.model), strategy = parse_spec(one.strategy);
  const auto graph = builtin_models().at(model.name).make(model, one.shape);
  StrategyInput input{graph, one.workers, 96, 4, strategy};
  input.micro_batches = one.accumulate;
  return builtin_strategies().at(strategy.name).make(input);
}

/// Of closed form and simulator, what each says is a step.
std::pair<double, double> both(const Plan& plan, const Spec& strategy, const StepCosts& costs) {
  const auto range = steps_to_simulate(plan);
  return {price_plan(plan, strategy, costs).seconds, simulate_steps(plan, costs, range.steps + 2, range.first).step_seconds};
}

/// The causes of a step are all of it.
void expect_whole(const Ledger& ledger) {
  double sum = 0;
  for (const double part : ledger.seconds) sum += part;
  EXPECT_NEAR(sum, ledger.wall, 1e-9 * ledger.wall);
}

class ClosedForm : public testing::TestWithParam<Case> {};

TEST_P(ClosedForm, AgreesWithTheSimulator) {
  const auto strategy = parse_spec(GetParam().strategy);
  const auto plan = planned(GetParam());
  const auto costs = balanced_costs(plan);
  const auto range = steps_to_simulate(plan);
  const auto simulated = simulate_steps(plan, costs, range.steps + 2, range.first);
  const auto priced = price_plan(plan, strategy, costs);
  EXPECT_NEAR(priced.seconds / simulated.step_seconds, 1, 0.02) << simulated.step_seconds << " " << priced.seconds;
  ASSERT_EQ(priced.workers.size(), plan.roles.size());
  for (const auto& ledger : priced.workers) {
    expect_whole(ledger);
    EXPECT_NEAR(ledger.wall, priced.seconds, 0.02 * priced.seconds);
  }
}

/// Loaders that read one storage, which alone gives each of them a batch in 90 s, longer than any of these steps.
TEST_P(ClosedForm, AgreesWithTheSimulatorOnASlowSource) {
  const auto strategy = parse_spec(GetParam().strategy);
  const auto plan = planned(GetParam());
  auto costs = balanced_costs(plan);
  const int storage = costs.resource("storage of place 0");
  for (auto& loader : costs.loader) loader = {90, {{storage, 1}}};
  const auto range = steps_to_simulate(plan);
  const auto simulated = simulate_steps(plan, costs, range.steps + 2, range.first);
  const auto priced = price_plan(plan, strategy, costs);
  const double source = 90.0 * static_cast<double>(plan.roles.size());
  EXPECT_NEAR(simulated.step_seconds, source, 0.02 * source);
  EXPECT_NEAR(priced.seconds / simulated.step_seconds, 1, 0.02) << simulated.step_seconds;
  for (const auto& ledger : priced.workers) {
    expect_whole(ledger);
    EXPECT_GT(ledger[Cause::load], 0.1 * source);
  }
}

/// Batches that are made in the step, from one storage that gives one in 3 s, and in 20. Workers are taken to want theirs at once: so they do, but for a schedule whose workers end their steps one after the other. Who does not wait
/// for others comes now when nobody else does and now when all do; of that the form has the first, and that no step is shorter than what all want (docs/model.md).
TEST_P(ClosedForm, AgreesWithTheSimulatorOnBatchesThatAreMadeInTheStep) {
  const auto strategy = parse_spec(GetParam().strategy);
  const auto plan = planned(GetParam());
  for (const double seconds : {3, 20}) {
    auto costs = balanced_costs(plan);
    const int storage = costs.resource("storage of place 0");
    for (std::size_t r = 0; r < plan.roles.size(); ++r)
      for (std::size_t t = 0; t < plan.roles[r].tasks.size(); ++t)
        if (plan.roles[r].tasks[t].kind == TaskKind::load) costs.tasks[r][t] = {seconds, {{storage, 1}}};
    const auto [closed, simulated] = both(plan, strategy, costs);
    if (plan.asynchronous() || steps_apart(plan)) {
      EXPECT_LT(closed / simulated, 1.02) << seconds << ": " << simulated << " " << closed;
      EXPECT_GT(closed / simulated, seconds > 10 ? 0.67 : 0.88) << seconds << ": " << simulated << " " << closed;
      EXPECT_GE(closed, seconds * static_cast<double>(plan.roles.size())) << seconds;
    } else {
      EXPECT_NEAR(closed / simulated, 1, plan.roles.size() > 1 ? 0.05 : 0.02) << seconds << ": " << simulated << " " << closed;
    }
    for (const auto& ledger : price_plan(plan, strategy, costs).workers) expect_whole(ledger);
  }
}

/// Roles that take now longer, now shorter than others, and forward and backward not in one proportion.
TEST_P(ClosedForm, AgreesWithTheSimulatorOnUnequalStages) {
  const auto strategy = parse_spec(GetParam().strategy);
  const auto plan = planned(GetParam());
  for (const auto& [forward, backward] : {std::pair{std::vector{1.0, 1.6, 0.7, 1.2}, std::vector{1.0, 1.6, 0.7, 1.2}}, {{1.7, 1.0, 1.0, 1.0}, {1.2, 1.0, 1.0, 1.0}}, {{1.0, 0.6, 0.6, 1.5}, {1.0, 0.9, 0.6, 1.9}}}) {
    auto costs = balanced_costs(plan);
    for (std::size_t r = 0; r < plan.roles.size(); ++r)
      for (std::size_t t = 0; t < plan.roles[r].tasks.size(); ++t) {
        const auto kind = plan.roles[r].tasks[t].kind;
        if (kind == TaskKind::forward) costs.tasks[r][t].seconds *= forward[r % forward.size()];
        if (kind == TaskKind::backward || kind == TaskKind::backward_input || kind == TaskKind::backward_weight) costs.tasks[r][t].seconds *= backward[r % backward.size()];
      }
    const auto range = steps_to_simulate(plan);
    const auto simulated = simulate_steps(plan, costs, range.steps + 2, range.first);
    const auto priced = price_plan(plan, strategy, costs);
    EXPECT_NEAR(priced.seconds / simulated.step_seconds, 1, 0.02) << forward.front() << " " << forward[1] << ": " << simulated.step_seconds << " " << priced.seconds;
    for (const auto& ledger : priced.workers) expect_whole(ledger);
  }
}

/// With servers, with neighbours, or unit by unit.
bool exchanges_its_own_way(const Plan& plan, const Spec& strategy) {
  return plan.serving.servers > 0 || strategy.name == "local" || (strategy.name == "sharded" && strategy.options.contains("level") && strategy.options.at("level") == "3");
}

/// Where exchanges and updates take long, and updates wait for all gradients together, or for nothing but their own: each in its place, whatever hides behind what.
TEST_P(ClosedForm, AgreesWithTheSimulatorOnLongTails) {
  const auto& one = GetParam();
  const auto model = parse_spec(one.model), strategy = parse_spec(one.strategy);
  const auto graph = builtin_models().at(model.name).make(model, one.shape);
  for (const bool whole : {false, true}) {
    StrategyInput input{graph, one.workers, 96, 4, strategy};
    input.micro_batches = one.accumulate;
    input.whole_gradient = whole;
    std::optional<Plan> plan;
    try {
      plan = builtin_strategies().at(strategy.name).make(input);
    } catch (const Error&) {
      continue;  // parts of the gradient lie with servers
    }
    // What several servers, gossip and stages that run into each other do at their ends has forms of its own.
    if (exchanges_its_own_way(*plan, strategy) || (plan->asynchronous() && !strategy.options.contains("replicas"))) continue;
    auto costs = balanced_costs(*plan);
    for (std::size_t r = 0; r < plan->roles.size(); ++r)
      for (std::size_t t = 0; t < plan->roles[r].tasks.size(); ++t) {
        const auto& task = plan->roles[r].tasks[t];
        auto& seconds = costs.tasks[r][t].seconds;
        if (task.kind == TaskKind::update) seconds = 3;
        if (task.kind == TaskKind::collective && task.layer == kNone && task.cargo != Cargo::control && task.cargo != Cargo::norms) seconds = 8;
        if (r + 1 == plan->roles.size() && task.kind == TaskKind::forward) seconds *= 0.1;
        if (r + 1 == plan->roles.size() && (task.kind == TaskKind::backward || task.kind == TaskKind::backward_input || task.kind == TaskKind::backward_weight)) seconds *= 0.1;
      }
    const auto [priced, simulated] = both(*plan, strategy, costs);
    EXPECT_NEAR(priced / simulated, 1, 0.02) << (whole ? "updates wait for all: " : "") << simulated << " " << priced;
  }
}

/// Servers, neighbours and gathered units: exchanges that take from a third of the passes to four times as long, all together. Of workers that step apart who asks a server waits for who asked before, now more, now less, which the
/// form has on the mean alone; within a bound of staleness they wait for each other besides (docs/model.md).
TEST_P(ClosedForm, AgreesWithTheSimulatorOnLongExchanges) {
  const auto& one = GetParam();
  const auto strategy = parse_spec(one.strategy);
  const auto plan = planned(one);
  if (!exchanges_its_own_way(plan, strategy)) return;  // the test above has these
  for (const double share : {0.1, 0.3, 1.0, 4.0}) {
    const double within = share < 0.2 || !steps_apart(plan) ? 0.02 : plan.serving.stale == kNone ? 0.03 : 0.22;
    auto costs = balanced_costs(plan);
    for (std::size_t r = 0; r < plan.roles.size(); ++r) {
      const auto& tasks = plan.roles[r].tasks;
      const auto exchanges = [](const Task& task) { return task.kind == TaskKind::send || task.kind == TaskKind::receive || (task.kind == TaskKind::collective && task.cargo != Cargo::control && task.cargo != Cargo::norms); };
      const auto count = static_cast<double>(std::count_if(tasks.begin(), tasks.end(), exchanges));
      for (std::size_t t = 0; t < tasks.size(); ++t)
        if (exchanges(tasks[t])) costs.tasks[r][t].seconds = share * 36 / count;
    }
    // Whole rounds, of steps of which one averages.
    const auto range = steps_to_simulate(plan);
    const double priced = price_plan(plan, strategy, costs).seconds, simulated = simulate_steps(plan, costs, range.steps + 40 * range.round, range.first).step_seconds;
    EXPECT_NEAR(priced / simulated, 1, within) << share << " of the passes: " << simulated << " " << priced;
  }
}

/// Steps of which each worker draws its own times, spread evenly: the closed form's mean is the simulator's.
TEST_P(ClosedForm, AgreesWithTheSimulatorUnderJitter) {
  const auto& one = GetParam();
  const auto model = parse_spec(one.model), strategy = parse_spec(one.strategy);
  const auto graph = builtin_models().at(model.name).make(model, one.shape);
  const auto plan = builtin_strategies().at(strategy.name).make({graph, one.workers, 96, 4, strategy});
  auto costs = balanced_costs(plan);
  const double even = price_plan(plan, strategy, costs).seconds;
  constexpr double sigma = 0.1;
  costs.jitter = {sigma, 0.2};
  const auto range = steps_to_simulate(plan, costs.jitter);
  const auto simulated = simulate_steps(plan, costs, range.steps, range.first);
  const auto priced = price_plan(plan, strategy, costs);
  EXPECT_NEAR(priced.seconds / simulated.step_seconds, 1, 0.02) << simulated.step_seconds;
  // One worker, and layers one after the other, wait for nobody; nor do workers that step apart, and what those of a pipeline without a flush wait is not told.
  const bool one_by_one = plan.roles.size() > 1 && plan.micro_batches < static_cast<int>(plan.stages.size());
  if (plan.workers() > 1 && strategy.name != "model" && !one_by_one && !plan.asynchronous() && !steps_apart(plan)) {
    // Of two that take turns before a third each has time to be late.
    const double least = strategy.options.contains("replicas") ? 0.05 : 0.1;
    EXPECT_GT(priced.seconds, even * (1 + least * sigma));
    EXPECT_GT(simulated.step_seconds, even * (1 + least * sigma));
  }
  for (const auto& ledger : priced.workers) {
    expect_whole(ledger);
  }
  costs.jitter.correlation = 1;
  EXPECT_DOUBLE_EQ(price_plan(plan, strategy, costs).seconds, even);
}

INSTANTIATE_TEST_SUITE_P(Strategies, ClosedForm, testing::ValuesIn(kCases), test_name);

// A new strategy, or order of a pipeline, is held against the simulator above.
TEST(ClosedForms, AreOfEveryStrategy) {
  std::set<std::string> held, schedules;
  for (const auto& one : kCases) {
    const auto strategy = parse_spec(one.strategy);
    held.insert(strategy.name);
    if (const auto schedule = strategy.options.find("schedule"); schedule != strategy.options.end()) schedules.insert(schedule->second);
  }
  for (const auto& name : builtin_strategies().names()) EXPECT_TRUE(held.contains(name)) << name << ": expected in kCases";
  for (const auto& name : builtin_pipeline_schedules().names()) EXPECT_TRUE(schedules.contains(name)) << name << ": expected in kCases";
}

/// Who has more of the batch computes longer in proportion.
StepCosts shared_costs(const Plan& plan, const std::vector<double>& times) {
  auto costs = balanced_costs(plan);
  const auto tasks = costs.tasks[0];
  costs.actors = workers_as_actors(plan);
  costs.tasks.clear();
  for (const double factor : times) {
    costs.tasks.push_back(tasks);
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (const auto kind = plan.roles[0].tasks[t].kind; kind == TaskKind::forward || kind == TaskKind::backward || kind == TaskKind::load) costs.tasks.back()[t].seconds *= factor;
  }
  costs.harness.assign(times.size(), costs.harness[0]);
  costs.loader.assign(times.size(), costs.loader[0]);
  return costs;
}

TEST(ClosedForms, UnequalSharesGoByTheSlowest) {
  for (const auto* form : {"data[shares=2/1/1]", "data[shares=2/1/1,bucket=5MiB]", "data[shares=2/1/1,overlap=off]"})
    for (const auto& times : {std::vector<double>{1.5, 0.75, 0.75}, {1, 1.02, 0.9}, {0.2, 1, 3}})
      for (const double jitter : {0.0, 0.05}) {
        const auto strategy = parse_spec(form);
        const auto plan = planned({form, 3});
        auto costs = shared_costs(plan, times);
        costs.jitter.sigma = jitter;
        const auto range = steps_to_simulate(plan, costs.jitter);
        const double simulated = simulate_steps(plan, costs, range.steps + 2, range.first).step_seconds;
        const auto priced = price_plan(plan, strategy, of_slowest(plan, costs));
        EXPECT_NEAR(priced.seconds / simulated, 1, 0.02) << form << ", " << times[0] << ", jitter " << jitter;
        ASSERT_EQ(priced.workers.size(), 1U);
        expect_whole(priced.workers[0]);
      }
}

TEST(ClosedForms, AreNotOfUnlikeWorkersThatDoNotWaitForEachOther) {
  for (const auto& [form, waits] : {std::pair{"parameter-server[async]", false}, {"pipeline[schedule=pipedream]", false}, {"data", true}, {"pipeline[replicas=2/1,micro=6]", true}}) {
    const auto plan = planned({form, 3});
    EXPECT_TRUE(has_closed_form(plan, false)) << form;
    EXPECT_EQ(has_closed_form(plan, true), waits) << form;
  }
}

// All that `advise` may price: each value of each thing that there is to choose of every strategy, beside the others' usual ones.
TEST(ClosedForms, AgreeWithTheSimulatorOnWhateverThereIsToChoose) {
  const auto strategies = builtin_strategies();
  std::set<std::string> priced;
  for (const auto& [network, shape] : {std::pair{"mlp[layers=8]", SampleShape{1, 28, 28, 10}}, {kGpt, kWords}})
    for (const int workers : {1, 4}) {
      const auto spec = parse_spec(network);
      const auto graph = builtin_models().at(spec.name).make(spec, shape);
      ChoiceInput choices{graph, workers, 96, 4, 8, true};
      choices.threads = true;
      for (const auto& family : families_of(choices))
        for (std::size_t axis = 0; axis < family.axes.size(); ++axis)
          for (std::size_t value = 0; value < family.axes[axis].values.size(); ++value) {
            std::vector<std::size_t> at;
            for (const auto& each : family.axes) at.push_back(each.starts.front());
            at[axis] = value;
            const auto strategy = family.spec(at);
            const auto keys = family.keys(at);
            StrategyInput input{graph, workers, 96, 4, strategy};
            if (const auto told = keys.find("accumulate"); told != keys.end()) input.micro_batches = std::stoi(told->second);
            input.recompute = keys.contains("recompute");
            const auto called = fmt::format("{} of {} by {}, micro-batches {}{}", to_string(strategy), network, workers, input.micro_batches, input.recompute ? ", recompute" : "");
            if (priced.contains(called)) continue;
            Plan plan;
            try {
              plan = strategies.at(strategy.name).make(input);
            } catch (const Error&) {
              continue;  // advise counts it as refused
            }
            priced.insert(called);
            const auto [closed, simulated] = both(plan, strategy, balanced_costs(plan, 0.3));
            EXPECT_NEAR(closed / simulated, 1, 0.02) << called << ": " << closed << ", simulated " << simulated;
          }
    }
  EXPECT_GT(priced.size(), 100u);
  std::set<std::string> names;
  for (const auto& each : priced) names.insert(each.substr(0, each.find_first_of("[ ")));
  EXPECT_EQ(names.size(), strategies.names().size());
}

class VisibleMessages : public testing::TestWithParam<Case> {};

/// Messages between stages that take as long as what a stage computes, and longer.
TEST_P(VisibleMessages, AgreeWithTheSimulator) {
  const auto strategy = parse_spec(GetParam().strategy);
  const auto plan = planned(GetParam());
  const double hidden = both(plan, strategy, balanced_costs(plan)).second;
  for (const double message : {0.05, 0.3, 1.0, 4.0}) {
    for (const auto& stages : {std::vector{1.0}, {1.0, 1.6, 0.7, 1.2}, {1.5, 1.0, 1.0, 1.0}}) {
      auto costs = balanced_costs(plan, message);
      for (std::size_t r = 0; r < plan.roles.size(); ++r)
        for (std::size_t t = 0; t < plan.roles[r].tasks.size(); ++t)
          if (const auto kind = plan.roles[r].tasks[t].kind; kind == TaskKind::forward || kind == TaskKind::backward || kind == TaskKind::backward_input || kind == TaskKind::backward_weight)
            costs.tasks[r][t].seconds *= stages[r % stages.size()];
      const auto [closed, simulated] = both(plan, strategy, costs);
      EXPECT_NEAR(closed / simulated, 1, 0.02) << "messages " << message << ", stages " << stages.front() << ": " << closed << ", simulated " << simulated;
      // They show: else nothing is held here.
      if (stages.size() == 1 && (message == 4 || (message == 1 && !plan.asynchronous()))) {
        EXPECT_GT(simulated, 1.02 * hidden);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, VisibleMessages,
                         testing::Values(Case{"model", 4}, Case{"model[balance=count]", 4, "mlp[layers=8]", {1, 28, 28, 10}, 3}, Case{"pipeline[schedule=gpipe,micro=8]", 4}, Case{"pipeline[schedule=gpipe,micro=3]", 4},
                                         Case{"pipeline[schedule=1f1b,micro=24]", 4}, Case{"pipeline[schedule=1f1b,micro=8]", 4}, Case{"pipeline[schedule=1f1b,micro=4]", 4}, Case{"pipeline[schedule=1f1b,micro=3]", 4},
                                         Case{"pipeline[schedule=1f1b,micro=8]", 2}, Case{"pipeline[schedule=interleaved-1f1b,micro=8,chunks=2]", 4}, Case{"pipeline[schedule=looped-bfs,micro=8,chunks=2]", 4},
                                         Case{"pipeline[schedule=zb-h1,micro=8]", 4}, Case{"pipeline[schedule=zbv,micro=8]", 4}, Case{"pipeline[schedule=dualpipev,micro=8]", 4}, Case{"pipeline[schedule=pipedream]", 4},
                                         Case{"pipeline[schedule=pipedream-2bw,micro=8]", 4}, Case{"hybrid[data=2,pipeline=4,micro=8]", 8},
                                         Case{"pipeline[replicas=2/1,micro=6]", 3}, Case{"pipeline[schedule=gpipe,replicas=3/1,micro=6]", 4}, Case{"pipeline[schedule=pipedream,replicas=1/2/1]", 4}, Case{"data[in-process=parallel]", 3}),
                         [](const auto& of) { return fmt::format("{}_{}", test_name(of), of.param.workers); });

// Where all stages take the same and messages nothing, a worker stands idle for as long as was published: the longest path knows nothing of that, and finds it.
TEST(LongestPath, IsThePublishedBubbleOfEqualStages) {
  for (const auto* name : {"interleaved-1f1b", "looped-bfs", "zb-h1", "zbv", "dualpipev"}) {
    const auto& schedule = builtin_pipeline_schedules().at(name).make;
    const Case one{"", 4, "mlp[layers=12]"};
    const auto model = parse_spec(one.model), strategy = parse_spec(fmt::format("pipeline[schedule={},micro=12,balance=count]", name));
    const auto graph = builtin_models().at(model.name).make(model, one.shape);
    const auto plan = builtin_strategies().at(strategy.name).make({graph, one.workers, 96, 4, strategy});
    StepCosts costs;
    costs.actors = roles_as_actors(plan);
    for (const auto& role : plan.roles) {
      auto& own = costs.tasks.emplace_back();
      for (const auto& task : role.tasks) own.push_back({task.kind == TaskKind::forward || task.kind == TaskKind::backward_input || task.kind == TaskKind::backward_weight ? 1.0 : task.kind == TaskKind::backward ? 2.0 : 0.0});
      costs.harness.push_back({});
      costs.loader.emplace_back();
      costs.ready.emplace_back(role.buckets.size(), 1.0);
    }
    const int chunks = static_cast<int>(plan.stages.size()) / one.workers;
    const double busy = 12.0 * chunks * PassSeconds{}.sum(), step = LongestPath(plan, costs).step_seconds(std::vector<double>(plan.roles.size(), 1));
    const auto published = schedule.bubble({one.workers, 12, chunks}, PassSeconds{});
    if (published.exact) EXPECT_NEAR(1 - busy / step, published.fraction, 1e-6) << name;
    else EXPECT_GE(1 - busy / step, published.fraction - 1e-6) << name;
  }
}

/// Passes of a stage take so many times as long as a forward of 1 and a backward of 2; nothing else takes anything.
StepCosts costs_of_passes(const Plan& plan, const std::vector<double>& by_stage) {
  StepCosts costs;
  costs.actors = roles_as_actors(plan);
  for (const auto& role : plan.roles) {
    auto& own = costs.tasks.emplace_back();
    for (const auto& task : role.tasks) own.push_back({(task.kind == TaskKind::forward ? 1.0 : task.kind == TaskKind::backward ? 2.0 : 0.0) * by_stage.at(static_cast<std::size_t>(task.stage))});
    costs.harness.push_back({});
    costs.loader.emplace_back();
    costs.ready.emplace_back(role.buckets.size(), 1.0);
  }
  return costs;
}

// A stage of r workers, of which each takes every r-th micro-batch, takes the r-th part of one's time for each (Narayanan et al., PipeDream, SOSP 2019, section 3.1): the slowest stage sets the pace.
TEST(LongestPath, IsTheSlowestOfStagesThatSeveralWorkersTakeByTurns) {
  for (const auto& [options, workers, replicas] : {std::tuple{"replicas=2/1", 3, std::vector{2, 1}}, {"replicas=1/2/1", 4, {1, 2, 1}}, {"replicas=3/2", 5, {3, 2}}})
    for (const std::vector<double>& times : {std::vector{1.0, 1.0, 1.0}, {2.5, 1, 0.5}, {0.5, 3, 2}}) {
      const auto strategy = fmt::format("pipeline[schedule=pipedream,{},micro=6]", options);
      const auto plan = planned({strategy.c_str(), workers, "mlp[layers=12]"});
      double slowest = 0;
      for (std::size_t stage = 0; stage < replicas.size(); ++stage) slowest = std::max(slowest, 3 * times[stage] / replicas[stage]);
      EXPECT_NEAR(price_plan(plan, parse_spec(strategy), costs_of_passes(plan, times)).seconds, plan.micro_batches * slowest, 1e-6 * slowest) << strategy << ", first stage " << times[0];
    }
}

// As torch.nn.DataParallel: passes beside each other, and between them the losses of all, one after the other.
TEST(LongestPath, OfReplicasThatOneWorkerLeads) {
  for (const int workers : {2, 3, 5}) {
    const auto plan = planned({"data[in-process=parallel]", workers});
    EXPECT_NEAR(price_plan(plan, parse_spec("data[in-process=parallel]"), costs_of_passes(plan, {4, 0.1})).seconds, 4 * 3 + workers * 0.1 * 3, 1e-9) << workers;
  }
}

// Without a flush a pipeline gives a batch whenever its slowest worker has done one, or the way there and back lets it.
TEST(AsynchronousForm, IsTheSlowestWorkersBatchOrTheWayThereAndBack) {
  std::vector<WorkerTerms> workers(3);
  for (auto& own : workers) {
    own.forward = 1;
    own.backward = 2;
    own.update = 0.5;
  }
  EXPECT_NEAR(price_asynchronous(4, workers).seconds, 12.5, 1e-9);
  workers[1].backward = 3;
  EXPECT_NEAR(price_asynchronous(4, workers).seconds, 16.5, 1e-9);
  // 10 there and back, and 12 s of messages, for every three micro-batches.
  workers[0].send_forward = workers[0].send_backward = workers[1].send_forward = workers[1].send_backward = 3;
  EXPECT_NEAR(price_asynchronous(4, workers).seconds, 4.0 * (10 + 12) / 3, 1e-9);
}

// Workers that step apart: those of one role in 3 s, of the other in 9. Together they do in 4.5 s as many steps as they are; within a bound the slower set the pace, and a server that has no time for all does.
TEST(ServersApart, AddUpWhatEachDoes) {
  std::vector<WorkerTerms> workers(2);
  workers[0].forward = 1;
  workers[0].backward = 2;
  workers[1].forward = 3;
  workers[1].backward = 6;
  const ServerTerm server{{1, 1}, {0, 0}, {0, 0}, {0, 0}, 0};
  const auto free = price_servers_apart(workers, {2, 2}, {server}, false, 1);
  EXPECT_NEAR(free.seconds, 4.5, 1e-9);
  EXPECT_NEAR(free.workers[0].wall, 3, 1e-9);
  EXPECT_NEAR(free.workers[1].wall, 9, 1e-9);
  EXPECT_NEAR(price_servers_apart(workers, {1, 1}, {server}, true, 1).seconds, 9, 1e-9);
  auto busy = server;
  busy.update = 3;
  // Each alone would take 6 and 12; the server's 3 s for each push are more than that of four of the first.
  EXPECT_NEAR(price_servers_apart(workers, {4, 0}, {busy}, false, 1).seconds, 12, 1e-9);
  for (const auto& ledger : free.workers) expect_whole(ledger);
}

}  // namespace
}  // namespace ddl
