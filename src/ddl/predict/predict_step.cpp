#include "ddl/predict/predict_step.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"
#include "ddl/predict/closed/price_plan.h"
#include "ddl/predict/interval.h"
#include "ddl/predict/step/compressed.h"
#include "ddl/predict/step/placed_actors.h"
#include "ddl/predict/step/server_turns.h"
#include "ddl/predict/step/simulate_step.h"
#include "ddl/strategy/batch_shares.h"

namespace ddl {
namespace {

/// About a second of the simulator.
constexpr std::size_t kMostTasks = 1'500'000;

std::size_t tasks_of(const Plan& plan, int steps, bool by_worker) {
  std::size_t count = 0;
  for (const auto& role : plan.roles) count += role.tasks.size() * static_cast<std::size_t>(by_worker ? role.count : 1);
  return count * static_cast<std::size_t>(steps);
}

Jitter jitter_of(const PredictionInput& input) { return input.steady ? Jitter{} : input.source.jitter(input.plan.workers()); }

/// What runs before a step is predicted: of asynchronous plans until the pipeline is full, and as long again.
StepRange range_of(const PredictionInput& input) { return steps_to_simulate(input.plan, jitter_of(input)); }

/// Of how many samples each worker has of a batch; empty where all have as many.
std::vector<std::int64_t> shares_of(const PredictionInput& input) { return input.plan.workers() > 1 ? batch_shares(input.strategy) : std::vector<std::int64_t>{}; }

std::function<int(int)> place_of(const PredictionInput& input) {
  return [&input](int worker) { return input.source.place(worker); };
}

/// Workers of a role that take unlike times; of those who step by themselves, some are near a server and others are not.
bool unequal(const PredictionInput& input) {
  return input.plan.workers() > 1 && (input.unlike || !shares_of(input).empty() || (steps_apart(input.plan) && at_several_places(input.plan, place_of(input))));
}

/// One worker stands for the others of its role where they do not slow each other down, do not step apart, and take as long.
bool by_worker(const PredictionInput& input) { return input.by_worker || steps_apart(input.plan) || unequal(input); }

std::vector<Actor> roles_of(const PredictionInput& input) { return placed_actors(input.plan, place_of(input)); }

std::vector<Actor> actors_of(const PredictionInput& input) { return by_worker(input) ? workers_as_actors(input.plan) : roles_of(input); }

StepCosts costs_of(const PredictionInput& input, const std::vector<Actor>& actors) {
  auto costs = step_costs(input.plan, input.graph, input.batch, actors, input.source, input.loading, compression_of(input.strategy), shares_of(input));
  if (input.steady) costs.jitter = {};
  return costs;
}

/// What a step goes by where workers of a role take unlike times: of each role who computes longest, and of what they exchange what takes longest, wherever they are.
StepCosts costs_of_slowest(const PredictionInput& input) {
  auto costs = of_slowest(input.plan, costs_of(input, workers_as_actors(input.plan)));
  const auto placed = costs_of(input, roles_of(input));
  costs.each_alone = placed.each_alone;
  for (std::size_t r = 0; r < costs.tasks.size(); ++r) {
    const auto& tasks = input.plan.roles[r].tasks;
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (communicates(tasks[t]) && placed.tasks[r][t].seconds > costs.tasks[r][t].seconds) costs.tasks[r][t] = {placed.tasks[r][t].seconds};
  }
  return costs;
}

/// Whether collectives of an actor's several groups, which go on beside each other, want more of something than there is.
bool groups_share(const std::vector<Task>& tasks, const std::vector<TaskCost>& costs) {
  std::map<int, std::map<int, double>> most;  // by resource and group
  for (std::size_t t = 0; t < costs.size(); ++t)
    if (tasks[t].kind == TaskKind::collective)
      for (const auto& demand : costs[t].demands) {
        auto& place = most[demand.resource][tasks[t].group];
        place = std::max(place, demand.share);
      }
  return std::any_of(most.begin(), most.end(), [](const auto& each) {
    double sum = 0;
    for (const auto& [group, share] : each.second) sum += share;
    return each.second.size() > 1 && sum > 1.001;
  });
}

/// Whether what is computed at once, and one exchange beside it, or collectives of several groups, want more of something than there is.
bool shares_resources(const Plan& plan, const StepCosts& costs) {
  std::map<int, double> computing, exchanging;  // by resource: of all workers; the most of any
  for (std::size_t a = 0; a < costs.tasks.size(); ++a) {
    const auto& actor = costs.actors[a];
    const auto& tasks = plan.role_of(actor.worker).tasks;
    if (groups_share(tasks, costs.tasks[a])) return true;
    std::map<int, double> most;
    for (std::size_t t = 0; t < costs.tasks[a].size(); ++t) {
      // Storage that all read from at once is the one thing that closed forms share.
      if (tasks[t].kind == TaskKind::load) continue;
      for (const auto& demand : costs.tasks[a][t].demands) {
        auto& place = communicates(tasks[t]) ? exchanging[demand.resource] : most[demand.resource];
        place = std::max(place, demand.share);
      }
    }
    for (const auto& [resource, share] : most) computing[resource] += share * std::max(1, actor.count);
  }
  return std::any_of(computing.begin(), computing.end(), [&](const auto& each) { return each.second + exchanging[each.first] > 1.001; });
}

/// Steps that go on into each other. Of workers that step apart each has its turns at the servers, so that one cannot stand for the others.
void simulate_asynchronous(const PredictionInput& input, StepPrediction& out) {
  const auto costs = costs_of(input, actors_of(input));
  const auto run = simulate_steps(input.plan, costs, range_of(input).steps);
  const auto called = span_workers(costs.actors);
  out.seconds = run.step_seconds;
  out.roles.resize(input.plan.roles.size());
  std::vector<int> counted(out.roles.size());
  for (std::size_t a = 0; a < costs.actors.size(); ++a) {
    auto ledger = fold(run.trace, called[a], run.traced[a].begin, run.traced[a].end);
    const auto steps = static_cast<double>(run.steps[a].size());
    ledger.wall /= steps;
    for (auto& each : ledger.seconds) each /= steps;
    out.roles[static_cast<std::size_t>(costs.actors[a].role)] += ledger;
    ++counted[static_cast<std::size_t>(costs.actors[a].role)];
  }
  out.trace = run.trace;
  // The mean of a role's workers.
  for (std::size_t r = 0; r < out.roles.size(); ++r) {
    out.roles[r].wall /= std::max(1, counted[r]);
    for (auto& each : out.roles[r].seconds) each /= std::max(1, counted[r]);
  }
}

void simulate(const PredictionInput& input, StepPrediction& out) {
  const auto costs = costs_of(input, actors_of(input));
  const auto range = range_of(input);
  // Of steps of which some do what others do not, all of a round are told.
  auto run = simulate_steps(input.plan, costs, range.steps, range.first, range.round > 1 ? Traced::all_but_first : Traced::last);
  const auto called = span_workers(costs.actors);
  out.seconds = run.step_seconds;
  // Of several workers of a role that have an actor each the first is told.
  out.roles.resize(input.plan.roles.size());
  const double traced = costs.jitter.own() > 0 || range.round > 1 ? range.steps - 1 : 1;
  for (std::size_t a = costs.actors.size(); a-- > 0;) {
    auto ledger = fold(run.trace, called[a], run.traced[a].begin, run.traced[a].end);
    ledger.wall /= traced;
    for (auto& each : ledger.seconds) each /= traced;
    out.roles[static_cast<std::size_t>(costs.actors[a].role)] = ledger;
    // Workers of a role may differ in what they compute with, and in how much.
    for (int w = 0; w < std::max(1, costs.actors[a].count); ++w) out.mean += ledger;
  }
  std::erase_if(run.trace, [&](const Span& span) { return span.step + 1 != range.steps; });
  out.trace = std::move(run.trace);
}

}  // namespace

bool has_closed_form(const PredictionInput& input) { return has_closed_form(input.plan, unequal(input)); }

StepPrediction predict_step(const PredictionInput& input) {
  StepPrediction out;
  out.engine = input.engine;
  if (out.engine == Engine::automatic) {
    out.engine = tasks_of(input.plan, range_of(input).steps, by_worker(input)) <= kMostTasks || !has_closed_form(input) ? Engine::simulated : Engine::closed;
  }
  if (out.engine == Engine::closed) {
    if (!has_closed_form(input))
      throw Error(Code::unsupported, fmt::format("[predict] unsupported: there is no closed form of unlike workers that do not wait for each other; got {}, expected --engine simulated, or auto", to_string(input.strategy)));
    const auto costs = unequal(input) ? costs_of_slowest(input) : costs_of(input, roles_of(input));
    const auto priced = price_plan(input.plan, input.strategy, costs);
    // Whom a bound of staleness holds back comes to a server together with others.
    out.alone = input.plan.workers() > 1 && (input.plan.serving.stale != kNone || shares_resources(input.plan, costs));
    out.seconds = priced.seconds;
    out.roles = priced.workers;
  } else if (input.plan.asynchronous() || steps_apart(input.plan)) {
    simulate_asynchronous(input, out);
  } else {
    simulate(input, out);
  }
  std::tie(out.low, out.high) = interval_of(out.seconds, input.sigma);
  int workers = 0;
  const bool told_of_each = out.mean.wall > 0;
  for (std::size_t r = 0; r < out.roles.size(); ++r) {
    const auto& role = input.plan.roles[r];
    if (role.holds.total() > out.most.total()) out.most = role.holds;
    for (int w = 0; w < role.count && !told_of_each; ++w) out.mean += out.roles[r];
    workers += role.count;
  }
  if (const auto compression = compression_of(input.strategy); !compression.empty() && workers > 1)
    out.most.buckets += compression_memory(compression, input.plan.roles.front(), input.graph.parameter_specs(), workers);
  out.mean.wall /= std::max(1, workers);
  for (auto& each : out.mean.seconds) each /= std::max(1, workers);
  return out;
}

}  // namespace ddl
