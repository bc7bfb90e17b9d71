#include "ddl/predict/closed/price_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"
#include "ddl/predict/step/jitter.h"

namespace ddl {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

/// How often a task is done, by step.
double share_of_steps(const Task& task) { return task.first_step == kNone ? 0 : 1.0 / std::max(1, task.every); }

/// What a role's tasks of one bucket come to; averages of parameters count as much as they are done.
WorkerTerms terms_of_role(const Plan& plan, int number, const StepCosts& costs) {
  const auto& role = plan.roles[at(number)];
  WorkerTerms terms;
  std::map<int, BucketTerm> buckets;  // by the order of their collectives
  std::map<int, int> place;           // by bucket
  const double m = plan.micro_batches;
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    const double seconds = costs.tasks[at(number)][t].seconds * share_of_steps(task);
    switch (task.kind) {
      case TaskKind::load: terms.load += seconds; break;
      case TaskKind::forward: terms.forward += seconds / m; break;
      case TaskKind::backward_weight: terms.backward_weight += seconds / m; [[fallthrough]];
      case TaskKind::backward:
      case TaskKind::backward_input: terms.backward += seconds / m; break;
      case TaskKind::send:
        if (task.cargo == Cargo::activations) terms.send_forward += seconds / m;
        break;
      case TaskKind::receive:
        if (task.cargo == Cargo::activation_gradients) terms.send_backward += seconds / m;
        break;
      case TaskKind::update:
      case TaskKind::average:
      case TaskKind::release: {
        const auto known = place.find(task.bucket);
        if (known == place.end() || task.kind != TaskKind::update) terms.update += seconds;
        else buckets[known->second].update += seconds;
        break;
      }
      case TaskKind::collective: {
        if (task.layer != kNone) {
          (task.cargo == Cargo::activations ? terms.exchange_forward : terms.exchange_backward) += seconds / m;
          break;
        }
        const int order = static_cast<int>(buckets.size());
        // Of a bucket's collectives the first is the gradients'; parameters that are gathered after their update come in a chain of their own, at the end.
        if (task.cargo == Cargo::gradients) place.try_emplace(task.bucket, order);
        const bool waits = task.waits_for != kNone;
        buckets[order] = {waits ? costs.ready[at(number)][at(task.waits_for)] : 1, seconds, 0};
        if (task.cargo == Cargo::gradients && !waits) terms.overlaps = false;
        break;
      }
    }
  }
  for (const auto& [order, term] : buckets) terms.buckets.push_back(term);
  terms.harness = costs.harness[at(number)];
  terms.loader = costs.loader[at(number)].seconds;
  return terms;
}

}  // namespace

std::vector<WorkerTerms> terms_of(const Plan& plan, const StepCosts& costs) {
  if (costs.actors.size() != plan.roles.size() || costs.tasks.size() != plan.roles.size())
    throw Error(Code::invalid_argument, fmt::format("[predict] costs of {} actors; expected one for each of {} roles", costs.actors.size(), plan.roles.size()));
  std::vector<WorkerTerms> all;
  for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r) all.push_back(terms_of_role(plan, r, costs));
  return all;
}

namespace {

/// All that a worker computes takes so many times as long.
WorkerTerms slower(WorkerTerms terms, double times) {
  for (double* part : {&terms.forward, &terms.backward, &terms.backward_weight, &terms.update, &terms.load, &terms.harness}) *part *= times;
  for (auto& bucket : terms.buckets) bucket.update *= times;
  return terms;
}

/// With jitter: a role's workers wait for the slowest of them, so that it decides; of several roles each has its own, and the step is the mean over draws of all, those that the simulator has.
PricedStep with_jitter(const std::vector<WorkerTerms>& terms, const StepCosts& costs, const std::function<PricedStep(const std::vector<WorkerTerms>&)>& price) {
  const double own = costs.jitter.own();
  if (!(own > 0)) return price(terms);
  std::vector<std::vector<double>> times;  // by role and draw
  for (std::size_t r = 0; r < terms.size(); ++r) {
    const int workers = std::max(1, costs.actors[r].count);
    times.push_back(terms.size() == 1 ? std::vector<double>{expected_maximum(workers)} : draw_maxima(workers, kJitterDraws, kJitterSeed, r));
    for (auto& each : times.back()) each = std::exp(own * each);
  }
  PricedStep mean{0, std::vector<Ledger>(terms.size())};
  const auto draws = times.front().size();
  for (std::size_t d = 0; d < draws; ++d) {
    std::vector<WorkerTerms> drawn;
    for (std::size_t r = 0; r < terms.size(); ++r) drawn.push_back(slower(terms[r], times[r][d]));
    const auto priced = price(drawn);
    mean.seconds += priced.seconds / static_cast<double>(draws);
    for (std::size_t r = 0; r < terms.size(); ++r) {
      auto ledger = priced.workers[r];
      // The slowest of a role is not the one whose ledger is told: what it has more, the others wait.
      const double share = costs.actors[r].count > 1 ? 1 - std::exp(-own * expected_maximum(costs.actors[r].count)) : 0;
      for (const auto cause : {Cause::load, Cause::forward, Cause::backward, Cause::update, Cause::harness}) {
        ledger[Cause::wait] += share * ledger[cause];
        ledger[cause] *= 1 - share;
      }
      for (auto& each : ledger.seconds) each /= static_cast<double>(draws);
      ledger.wall /= static_cast<double>(draws);
      mean.workers[r] += ledger;
    }
  }
  return mean;
}

}  // namespace

PricedStep price_plan(const Plan& plan, const Spec& strategy, const StepCosts& costs) {
  const auto terms = terms_of(plan, costs);
  if (plan.asynchronous() || plan.serving.servers > 0)
    throw Error(Code::unsupported, fmt::format("[predict] {}: no closed form; the simulator has these", plan.strategy));
  const auto option = [&](const char* key, const std::string& otherwise) {
    const auto found = strategy.options.find(key);
    return found == strategy.options.end() ? otherwise : found->second;
  };
  const int stages = static_cast<int>(plan.stages.size());
  return with_jitter(terms, costs, [&](const std::vector<WorkerTerms>& workers) {
    if (workers.size() == 1) return price_replica(workers[0], plan.micro_batches);
    if (strategy.name == "model") return price_layers(workers);
    return price_pipeline(option("schedule", "1f1b"), std::max(1, stages / static_cast<int>(workers.size())), plan.micro_batches, workers);
  });
}

}  // namespace ddl
