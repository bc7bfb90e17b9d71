#include "ddl/predict/predict_step.h"

#include <algorithm>
#include <tuple>

#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"
#include "ddl/predict/closed/price_plan.h"
#include "ddl/predict/interval.h"
#include "ddl/predict/step/compressed.h"
#include "ddl/predict/step/simulate_step.h"

namespace ddl {
namespace {

/// About a second of the simulator.
constexpr std::size_t kMostTasks = 1'500'000;

std::size_t tasks_of(const Plan& plan, int steps, bool by_worker) {
  std::size_t count = 0;
  for (const auto& role : plan.roles) count += role.tasks.size() * static_cast<std::size_t>(by_worker ? role.count : 1);
  return count * static_cast<std::size_t>(steps);
}

/// The mean time from one update to the next in the middle of a long run, where the pipeline is full.
double period_of(const std::vector<double>& updates, std::size_t a_step, int batches) {
  if (updates.size() < 4 * a_step || a_step == 0) throw Error(Code::invalid_argument, fmt::format("[predict] {} updates of {} batches are too few to tell a period", updates.size(), batches));
  const std::size_t first = updates.size() / 4 / a_step * a_step, last = updates.size() * 3 / 4 / a_step * a_step;
  return (updates[last] - updates[first]) / static_cast<double>((last - first) / a_step);
}

/// Enough for the middle half to be a pipeline that is full.
int batches_to_simulate(const Plan& plan) {
  int deepest = 0;
  for (const auto& role : plan.roles) deepest = std::max(deepest, depth(role));
  return 8 * (deepest + 1);
}

void simulate_asynchronous(const PredictionInput& input, StepPrediction& out) {
  const int batches = batches_to_simulate(input.plan);
  const auto plan = unroll(input.plan, batches);
  const auto costs = step_costs(plan, input.graph, input.batch * batches, roles_as_actors(plan), input.source, input.loading, compression_of(input.strategy));
  auto run = simulate_steps(plan, costs, 1);
  std::size_t a_step = 0;
  for (const auto& task : input.plan.roles[0].tasks) a_step += task.kind == TaskKind::update;
  out.seconds = period_of(run.updates[0], a_step, batches);
  // A worker's part of each step, of what all of them come to.
  for (std::size_t r = 0; r < plan.roles.size(); ++r) {
    auto ledger = fold(run.trace, costs.actors[r].worker, run.last[r].begin, run.last[r].end);
    for (auto& each : ledger.seconds) each /= batches;
    ledger[Cause::bubble] += out.seconds - ledger.wall / batches;
    ledger.wall = out.seconds;
    out.roles.push_back(ledger);
  }
}

void simulate(const PredictionInput& input, StepPrediction& out) {
  const auto costs = step_costs(input.plan, input.graph, input.batch, input.by_worker ? workers_as_actors(input.plan) : roles_as_actors(input.plan), input.source, input.loading, compression_of(input.strategy));
  const auto range = steps_to_simulate(input.plan, costs.jitter);
  auto run = simulate_steps(input.plan, costs, range.steps, range.first);
  out.seconds = run.step_seconds;
  // Of several workers of a role the first is told.
  out.roles.resize(input.plan.roles.size());
  const double traced = costs.jitter.own() > 0 ? range.steps - 1 : 1;
  for (std::size_t a = costs.actors.size(); a-- > 0;) {
    auto ledger = fold(run.trace, costs.actors[a].worker, run.traced[a].begin, run.traced[a].end);
    ledger.wall /= traced;
    for (auto& each : ledger.seconds) each /= traced;
    out.roles[static_cast<std::size_t>(costs.actors[a].role)] = ledger;
  }
  std::erase_if(run.trace, [&](const Span& span) { return span.step + 1 != range.steps; });
  out.trace = std::move(run.trace);
}

}  // namespace

StepPrediction predict_step(const PredictionInput& input) {
  StepPrediction out;
  out.engine = input.engine;
  if (out.engine == Engine::automatic) {
    const bool asynchronous = input.plan.asynchronous();
    const int steps = asynchronous ? batches_to_simulate(input.plan) : steps_to_simulate(input.plan, input.source.jitter(input.plan.workers())).steps;
    out.engine = tasks_of(input.plan, steps, input.by_worker && !asynchronous) <= kMostTasks ? Engine::simulated : Engine::closed;
  }
  if (out.engine == Engine::closed) {
    const auto priced = price_plan(input.plan, input.strategy, step_costs(input.plan, input.graph, input.batch, roles_as_actors(input.plan), input.source, input.loading, compression_of(input.strategy)));
    out.seconds = priced.seconds;
    out.roles = priced.workers;
  } else if (input.plan.asynchronous()) {
    simulate_asynchronous(input, out);
  } else {
    simulate(input, out);
  }
  std::tie(out.low, out.high) = interval_of(out.seconds, input.sigma);
  int workers = 0;
  for (std::size_t r = 0; r < out.roles.size(); ++r) {
    const auto& role = input.plan.roles[r];
    if (role.holds.total() > out.most.total()) out.most = role.holds;
    for (int w = 0; w < role.count; ++w) out.mean += out.roles[r];
    workers += role.count;
  }
  if (const auto compression = compression_of(input.strategy); !compression.empty() && workers > 1)
    out.most.buckets += compression_memory(compression, input.plan.roles.front(), input.graph.parameter_specs(), workers);
  out.mean.wall /= std::max(1, workers);
  for (auto& each : out.mean.seconds) each /= std::max(1, workers);
  return out;
}

}  // namespace ddl
