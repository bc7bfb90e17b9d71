#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "ddl/nn/builtin.h"
#include "ddl/predict/explain/step_draws.h"
#include "ddl/predict/step/simulate_step.h"
#include "ddl/strategy/builtin.h"

namespace ddl {

inline Plan plan_of(const std::string& strategy, int workers) {
  const auto spec = parse_spec("mlp[layers=8]");
  const auto graph = builtin_models().at(spec.name).make(spec, {1, 28, 28, 10});
  StrategyInput input{graph, workers, 64, 4, parse_spec(strategy)};
  return builtin_strategies().at(input.spec.name).make(input);
}

/// By worker and task; 0 for what it does not name.
inline StepCosts costs_of(const Plan& plan, const std::function<double(int worker, const Task& task)>& seconds) {
  StepCosts costs;
  costs.actors = workers_as_actors(plan);
  for (const auto& actor : costs.actors) {
    auto& own = costs.tasks.emplace_back();
    for (const auto& task : plan.role_of(actor.worker).tasks) own.push_back({seconds(actor.worker, task)});
  }
  for (const auto& role : plan.roles) costs.ready.emplace_back(role.buckets.size(), 1.0);
  costs.harness.assign(costs.actors.size(), {});
  costs.loader.assign(costs.actors.size(), {});
  return costs;
}

/// Passes forward take 1 ms, backward 2, in one part or two.
inline double passes(const Task& task) {
  switch (task.kind) {
    case TaskKind::forward: return 1e-3;
    case TaskKind::backward: return 2e-3;
    case TaskKind::backward_input:
    case TaskKind::backward_weight: return 1e-3;
    default: return 0;
  }
}

/// A step that took these costs, as if it had been measured.
inline TracedStep traced(const Plan& plan, const StepCosts& costs, std::int64_t number = 1) {
  const auto range = steps_to_simulate(plan);
  auto run = simulate_steps(plan, costs, range.steps, range.first);
  return {number, run.last, std::move(run.trace)};
}

/// Steps that run into each other, or of workers that step by themselves: those in the middle of a simulation, as if they had been measured.
inline std::vector<TracedStep> traced_steps_of(const StepSimulation& run) {
  std::size_t count = run.steps[0].size();
  for (const auto& own : run.steps) count = std::min(count, own.size());
  std::vector<TracedStep> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i].number = run.first_traced + static_cast<int>(i);
    for (const auto& own : run.steps) out[i].workers.push_back(own[i]);
  }
  for (const auto& span : run.trace)
    if (const auto i = static_cast<std::size_t>(span.step - run.first_traced); i < count) out[i].spans.push_back(span);
  return out;
}
inline std::vector<TracedStep> traced_steps_of(const Plan& plan, const StepCosts& costs) { return traced_steps_of(simulate_steps(plan, costs, steps_to_simulate(plan).steps)); }

}  // namespace ddl
