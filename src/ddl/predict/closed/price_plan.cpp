#include "ddl/predict/closed/price_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/predict/closed/longest_path.h"
#include "ddl/predict/closed/plan_terms.h"
#include "ddl/predict/step/jitter.h"
#include "ddl/predict/step/server_turns.h"

namespace ddl {
namespace {

/// All that a worker computes takes so many times as long.
WorkerTerms slower(WorkerTerms terms, double times) {
  for (double* part : {&terms.forward, &terms.backward, &terms.backward_weight, &terms.update, &terms.load, &terms.harness}) *part *= times;
  for (auto& bucket : terms.buckets) bucket.update *= times;
  return terms;
}

/// The same of the one role's tasks.
StepCosts slower(const Role& role, StepCosts costs, double times) {
  for (std::size_t t = 0; t < role.tasks.size(); ++t)
    if (const auto kind = role.tasks[t].kind; kind == TaskKind::load || kind == TaskKind::forward || kind == TaskKind::backward || kind == TaskKind::update) costs.tasks[0][t].seconds *= times;
  costs.harness[0].seconds *= times;
  return costs;
}

/// With jitter: a role's workers wait for the slowest of them, so that it decides; of several roles each has its own, and the step is the mean over draws of all, those that the simulator has.
PricedStep with_jitter(const std::vector<WorkerTerms>& terms, const StepCosts& costs, const std::function<PricedStep(const std::vector<WorkerTerms>&, const std::vector<double>& times)>& price) {
  const double own = costs.jitter.own();
  if (!(own > 0)) return price(terms, std::vector<double>(terms.size(), 1));
  std::vector<std::vector<double>> times;  // by role and draw
  std::vector<double> waits;               // by role: the share of what it computes that all but the slowest wait
  for (std::size_t r = 0; r < terms.size(); ++r) {
    const int workers = std::max(1, costs.actors[r].count);
    const double slowest = expected_maximum(workers);
    waits.push_back(workers > 1 ? 1 - std::exp(-own * slowest) : 0);
    times.push_back(terms.size() == 1 ? std::vector<double>{slowest} : draw_maxima(workers, kJitterDraws, kJitterSeed, r));
    for (auto& each : times.back()) each = std::exp(own * each);
  }
  PricedStep mean{0, std::vector<Ledger>(terms.size())};
  const auto draws = times.front().size();
  for (std::size_t d = 0; d < draws; ++d) {
    std::vector<WorkerTerms> drawn;
    std::vector<double> by_role;
    for (std::size_t r = 0; r < terms.size(); ++r) {
      by_role.push_back(times[r][d]);
      drawn.push_back(slower(terms[r], by_role.back()));
    }
    const auto priced = price(drawn, by_role);
    mean.seconds += priced.seconds / static_cast<double>(draws);
    for (std::size_t r = 0; r < terms.size(); ++r) {
      auto ledger = priced.workers[r];
      // The slowest of a role is not the one whose ledger is told: what it has more, the others wait.
      for (const auto cause : {Cause::load, Cause::forward, Cause::backward, Cause::update, Cause::harness}) {
        ledger[Cause::wait] += waits[r] * ledger[cause];
        ledger[cause] *= 1 - waits[r];
      }
      for (auto& each : ledger.seconds) each /= static_cast<double>(draws);
      ledger.wall /= static_cast<double>(draws);
      mean.workers[r] += ledger;
    }
  }
  return mean;
}

/// Whether messages between stages take more than 1 % of a pass: what waits for them is then in no sum.
bool messages_show(const std::vector<WorkerTerms>& workers) {
  return std::any_of(workers.begin(), workers.end(), [](const WorkerTerms& own) { return own.send_forward + own.send_backward > 0.01 * own.pass(); });
}

/// Whether gradients go over several wires: each group of workers has its own queue.
bool has_several_wires(const Role& role) {
  std::set<int> groups;
  for (const auto& task : role.tasks)
    if (task.kind == TaskKind::collective && task.layer == kNone && (task.cargo == Cargo::gradients || task.cargo == Cargo::parameters)) groups.insert(task.group);
  return groups.size() > 1;
}

/// Whether an update waits for more than its own gradients: for what is known of all together, their norm, or that none overflowed.
bool waits_for_all(const Role& role) {
  return std::any_of(role.tasks.begin(), role.tasks.end(), [&](const Task& task) {
    return task.kind == TaskKind::update && std::any_of(task.after.begin(), task.after.end(), [&](int other) {
             const auto& before = role.tasks[at(other)];
             return before.kind == TaskKind::collective && before.layer == kNone && before.bucket != task.bucket;
           });
  });
}

/// Whether parameters are gathered where they were updated, each bucket after its own update.
bool gathers_updates(const Role& role) {
  return std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::collective && task.goal == Goal::all_gather && task.cargo == Cargo::parameters; });
}

/// Whether something is exchanged beside gradients, a vote or a norm: it goes on beside updates, or ahead of them.
bool votes_apart(const Role& role) {
  return std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::collective && task.layer == kNone && task.bucket == kNone; });
}

/// Whether stages whose gradients are exchanged take unlike times: how much of one's tail hides behind the others' backwards is then in no sum.
bool tails_show(const std::vector<WorkerTerms>& workers) {
  double least = workers.front().pass(), most = least;
  for (const auto& own : workers) {
    least = std::min(least, own.pass());
    most = std::max(most, own.pass());
  }
  return most > 1.01 * least && std::any_of(workers.begin(), workers.end(), [](const WorkerTerms& own) { return exposed(own) + own.update > 0.01 * own.pass(); });
}

/// Replicas have no bubbles: they wait for who leads them, or it for them.
PricedStep with_waits_for_bubbles(PricedStep step) {
  for (auto& ledger : step.workers) std::swap(ledger[Cause::wait], ledger[Cause::bubble]);
  return step;
}

/// Of one role: what its step is longer or shorter than its terms say, is communication.
PricedStep price_replica_in(double seconds, const WorkerTerms& terms, int micro_batches) {
  auto priced = price_replica(terms, micro_batches);
  auto& ledger = priced.workers[0];
  const double more = std::max(seconds, terms.loader) - ledger.wall;
  ledger[Cause::communication] += more;
  ledger.wall += more;
  priced.seconds += more;
  return priced;
}

}  // namespace

StepCosts of_slowest(const Plan& plan, const StepCosts& costs) {
  auto out = costs;
  out.actors = roles_as_actors(plan);
  out.tasks.clear();
  out.harness.clear();
  out.loader.clear();
  for (auto& role : out.actors) {
    std::vector<std::pair<double, std::size_t>> computing;  // of each of its workers
    const auto& tasks = plan.roles[at(role.role)].tasks;
    for (std::size_t a = 0; a < costs.actors.size(); ++a) {
      if (costs.actors[a].role != role.role) continue;
      double sum = 0;
      for (std::size_t t = 0; t < tasks.size(); ++t)
        if (const auto kind = tasks[t].kind; kind != TaskKind::collective && kind != TaskKind::send && kind != TaskKind::receive) sum += costs.tasks[a][t].seconds;
      computing.emplace_back(sum, a);
    }
    const auto [most, slowest] = *std::max_element(computing.begin(), computing.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const double as_long = most * std::exp(-costs.jitter.own());
    role.count = static_cast<int>(std::count_if(computing.begin(), computing.end(), [&](const auto& each) { return each.first >= as_long; }));
    // What all of them want for their batches is wanted still.
    const auto together = [&](TaskCost of_slowest, const auto& of) {
      std::map<int, double> wanted;
      for (std::size_t a = 0; a < costs.actors.size(); ++a)
        if (costs.actors[a].role == role.role)
          for (const auto& demand : of(a).demands) wanted[demand.resource] += of(a).seconds * demand.share;
      for (auto& demand : of_slowest.demands) demand.share = of_slowest.seconds > 0 ? wanted[demand.resource] / of_slowest.seconds : demand.share;
      return of_slowest;
    };
    out.tasks.push_back(costs.tasks[slowest]);
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (tasks[t].kind == TaskKind::load) out.tasks.back()[t] = together(costs.tasks[slowest][t], [&](std::size_t a) -> const TaskCost& { return costs.tasks[a][t]; });
    out.harness.push_back(costs.harness[slowest]);
    out.loader.push_back(together(costs.loader[slowest], [&](std::size_t a) -> const TaskCost& { return costs.loader[a]; }));
  }
  return out;
}

bool has_closed_form(const Plan& plan, bool unlike) { return !unlike || !(plan.asynchronous() || steps_apart(plan)); }

namespace {

/// What all workers together want of each shared resource for the batches that they make in a step, s.
std::map<int, double> wanted_for_batches(const Plan& plan, const StepCosts& costs) {
  std::map<int, double> wanted;
  for (std::size_t a = 0; a < costs.actors.size(); ++a) {
    const auto& tasks = plan.roles[at(costs.actors[a].role)].tasks;
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (tasks[t].kind == TaskKind::load)
        for (const auto& demand : costs.tasks[a][t].demands) wanted[demand.resource] += costs.tasks[a][t].seconds * demand.share;
  }
  return wanted;
}

/// Batches that are made in the step are so by all workers at once, no sooner than all of them have what they want of something that they share. Who does not wait for others comes for it at another time than they.
StepCosts with_loads_together(const Plan& plan, StepCosts costs) {
  auto wanted = wanted_for_batches(plan, costs);
  if (wanted.empty()) return costs;
  for (std::size_t a = 0; a < costs.actors.size(); ++a) {
    const auto& tasks = plan.roles[at(costs.actors[a].role)].tasks;
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (tasks[t].kind == TaskKind::load)
        for (const auto& demand : costs.tasks[a][t].demands) costs.tasks[a][t].seconds = std::max(costs.tasks[a][t].seconds, wanted[demand.resource]);
  }
  return costs;
}

/// No step is shorter than what of a shared resource all batches of it want; what is longer for that is waited for a batch.
PricedStep no_shorter_than_batches(const Plan& plan, const StepCosts& costs, PricedStep step) {
  double least = 0;
  for (const auto& [resource, seconds] : wanted_for_batches(plan, costs)) least = std::max(least, seconds);
  if (least <= step.seconds) return step;
  for (auto& ledger : step.workers) {
    const double more = std::max(0.0, least - ledger.wall);
    ledger[Cause::load] += more;
    ledger.wall += more;
  }
  step.seconds = least;
  return step;
}

}  // namespace

PricedStep price_plan(const Plan& plan, const Spec& strategy, const StepCosts& alone) {
  const bool waits = !plan.asynchronous() && !steps_apart(plan);
  const auto costs = waits ? with_loads_together(plan, alone) : alone;
  const auto terms = terms_of(plan, costs);
  const bool turns = takes_turns(plan);
  const auto passes = passes_of(plan);
  // The simulator has no jitter there either.
  if (plan.asynchronous() && plan.serving.servers == 0) {
    if (!turns && !messages_show(terms)) return no_shorter_than_batches(plan, costs, price_asynchronous(plan.micro_batches, terms));
    const double seconds = LongestPath(plan, costs).step_seconds(std::vector<double>(terms.size(), 1));
    return no_shorter_than_batches(plan, costs, price_with_bubbles(seconds, passes, terms));
  }
  // Nor where workers step apart: nobody waits for the slowest.
  if (steps_apart(plan)) {
    std::vector<int> counts;
    for (const auto& role : plan.roles) counts.push_back(role.count);
    return no_shorter_than_batches(plan, costs, price_servers_apart(terms, counts, server_terms_of(plan, costs), plan.serving.stale != kNone, plan.micro_batches));
  }
  const auto option = [&](const char* key, const std::string& otherwise) {
    const auto found = strategy.options.find(key);
    return found == strategy.options.end() ? otherwise : found->second;
  };
  const auto schedule = option("schedule", "1f1b");
  // Of fewer micro-batches than stages a worker of 1F1B waits once, not twice.
  const bool has_sum = !turns && (strategy.name == "model" || schedule == "gpipe" || (schedule == "1f1b" && plan.micro_batches >= static_cast<int>(terms.size()) && !messages_show(terms)));
  const bool whole = std::any_of(plan.roles.begin(), plan.roles.end(), waits_for_all);
  std::optional<LongestPath> path;
  if (plan.serving.servers == 0 && (terms.size() > 1 ? !has_sum || whole || tails_show(terms) : (has_several_wires(plan.roles[0]) || whole || gathers_updates(plan.roles[0]) || votes_apart(plan.roles[0])) && !gathers_units(plan.roles[0]))) path.emplace(plan, costs);
  return with_jitter(terms, costs, [&](const std::vector<WorkerTerms>& workers, const std::vector<double>& times) {
    if (workers.size() == 1 && gathers_units(plan.roles[0])) return price_units(unit_terms_of(plan, strategy, slower(plan.roles[0], costs, times.front())));
    if (plan.serving.servers > 0) return price_servers(workers, server_terms_of(plan, costs), plan.micro_batches);
    if (workers.size() == 1 && path) return price_replica_in(path->step_seconds(times), workers[0], plan.micro_batches);
    if (workers.size() == 1) return price_replica(workers[0], plan.micro_batches);
    if (path) {
      auto step = price_with_bubbles(path->step_seconds(times), passes, workers);
      return plan.in_process ? with_waits_for_bubbles(std::move(step)) : step;
    }
    // Several micro-batches go behind each other, forward and back.
    if (strategy.name == "model") return plan.micro_batches == 1 ? price_layers(workers) : price_gpipe(plan.micro_batches, workers);
    return schedule == "gpipe" ? price_gpipe(plan.micro_batches, workers) : price_one_f_one_b(plan.micro_batches, workers);
  });
}

}  // namespace ddl
