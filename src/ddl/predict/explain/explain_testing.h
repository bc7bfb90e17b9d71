#pragma once

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
  costs.harness.assign(costs.actors.size(), 0);
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

}  // namespace ddl
