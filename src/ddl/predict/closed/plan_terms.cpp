#include "ddl/predict/closed/plan_terms.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/plan/occasion.h"
#include "ddl/predict/step/server_turns.h"

namespace ddl {
namespace {

/// Exchanges within a role, and the averages after them, in the order in which they are done; those of one key follow each other in the same steps.
struct Exchanges {
  using When = std::tuple<int, int>;                    ///< first step, every
  using Key = std::tuple<int, int, Cargo, int>;         ///< and what travels
  std::map<When, std::vector<Key>> order;
  std::map<Key, std::map<std::pair<int, int>, std::map<int, double>>> moves;  ///< by way and bucket
  std::map<Key, std::map<int, double>> averages;

  static Key key(const Task& task) { return {task.first_step, task.every, task.cargo, task.tensor}; }
  static bool is_move(const Task& task, int role) { return task.kind == TaskKind::send && task.peer == role && (task.shift != 0 || task.flip != 0); }
  bool has(const Task& task) const { return moves.contains(key(task)); }
};

Exchanges exchanges_of(const Role& role, int number, const std::vector<TaskCost>& costs) {
  Exchanges out;
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    if (!Exchanges::is_move(task, number)) continue;
    const auto key = Exchanges::key(task);
    auto& ways = out.moves[key];
    if (ways.empty()) out.order[{task.first_step, task.every}].push_back(key);
    ways[{task.shift, task.flip}][task.bucket] = costs[t].seconds;
  }
  for (std::size_t t = 0; t < role.tasks.size(); ++t)
    if (const auto& task = role.tasks[t]; task.kind == TaskKind::average && out.has(task)) out.averages[Exchanges::key(task)][task.bucket] = costs[t].seconds;
  return out;
}

double averaging_of(const Exchanges& exchanges, const std::vector<double>& updates) {
  double sum = 0;
  for (const auto& [when, keys] : exchanges.order) {
    std::vector<ExchangeRound> rounds;
    for (const auto& key : keys) {
      auto& round = rounds.emplace_back();
      for (const auto& [way, by_bucket] : exchanges.moves.at(key)) {
        auto& seconds = round.ways.emplace_back(updates.size());
        for (const auto& [bucket, each] : by_bucket) seconds.at(at(bucket)) = each;
      }
      round.averages.resize(updates.size());
      if (const auto found = exchanges.averages.find(key); found != exchanges.averages.end())
        for (const auto& [bucket, each] : found->second) round.averages.at(at(bucket)) = each;
    }
    sum += averaging_seconds(updates, rounds) / std::max(1, std::get<1>(when));
  }
  return sum;
}

/// No step is shorter than what a worker's loader takes for a batch, nor than what all loaders want of something that they share.
double source_seconds(const StepCosts& costs, std::size_t actor) {
  double most = costs.loader[actor].seconds;
  for (const auto& demand : costs.loader[actor].demands) {
    double all = 0;
    for (const auto& loader : costs.loader)
      for (const auto& other : loader.demands)
        if (other.resource == demand.resource) all += loader.seconds * other.share;
    most = std::max(most, all);
  }
  return most;
}

/// What a role's tasks of one bucket come to; averages of parameters count as much as they are done.
WorkerTerms terms_of_role(const Plan& plan, int number, int passes, const StepCosts& costs) {
  const auto& role = plan.roles[at(number)];
  WorkerTerms terms;
  std::map<int, BucketTerm> buckets;  // by the order of their collectives
  std::map<int, int> place;           // by bucket
  const double m = passes;
  const auto exchanges = exchanges_of(role, number, costs.tasks[at(number)]);
  std::vector<double> updates(role.buckets.size());
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    const double seconds = costs.tasks[at(number)][t].seconds * share_of_steps(task);
    // A server's work is beside its worker's; exchanges with neighbours have a form of their own.
    if (task.stream == Stream::server || (task.kind == TaskKind::average && exchanges.has(task))) continue;
    if (task.kind == TaskKind::update && task.bucket != kNone) updates[at(task.bucket)] += seconds;
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
        // Parameters of whom one worker leads come before all else.
        if (task.goal == Goal::broadcast) {
          terms.averaging += seconds;
          break;
        }
        const int order = static_cast<int>(buckets.size());
        // Of a bucket's collectives the last of its gradients is what the update waits for; parameters that are gathered after it come in a chain of their own, at the end.
        if (task.cargo == Cargo::gradients) place[task.bucket] = order;
        const bool waits = task.waits_for != kNone;
        const bool after_backward = std::any_of(task.after.begin(), task.after.end(), [&](int other) { return role.tasks[at(other)].kind == TaskKind::backward; });
        // Gradients of an earlier micro-batch have all that comes between to hide behind.
        const bool each = task.bucket != kNone && role.buckets[at(task.bucket)].every_pass;
        buckets[order] = {waits && !after_backward ? costs.ready[at(number)][at(task.waits_for)] : 1, seconds, 0, each ? m - 1 - task.micro_batch : 0};
        if (task.cargo == Cargo::gradients && !waits) terms.overlaps = false;
        break;
      }
    }
  }
  for (const auto& [order, term] : buckets) terms.buckets.push_back(term);
  if (!exchanges.order.empty()) terms.averaging += averaging_of(exchanges, updates);
  terms.harness = costs.harness[at(number)].seconds;
  terms.loader = source_seconds(costs, at(number));
  return terms;
}

}  // namespace

bool takes_turns(const Plan& plan) {
  if (plan.roles.size() == 1 || plan.serving.servers > 0) return false;
  // Each place of the mesh's other axes has every stage once.
  const int once = plan.shares() * plan.parts();
  std::vector<int> holders(plan.stages.size());
  for (const auto& role : plan.roles)
    for (const int stage : role.stages) holders[at(stage)] += role.count;
  return std::any_of(holders.begin(), holders.end(), [&](int workers) { return workers > once; });
}

std::vector<int> passes_of(const Plan& plan) {
  std::vector<int> passes(plan.roles.size(), plan.micro_batches);
  if (!takes_turns(plan)) return passes;
  for (std::size_t r = 0; r < passes.size(); ++r) {
    const auto& role = plan.roles[r];
    const auto own = std::count_if(role.tasks.begin(), role.tasks.end(), [&](const Task& task) { return task.kind == TaskKind::forward && task.stage == role.stages.front(); });
    passes[r] = std::max(1, static_cast<int>(own));
  }
  return passes;
}

std::vector<WorkerTerms> terms_of(const Plan& plan, const StepCosts& costs) {
  if (costs.actors.size() != plan.roles.size() || costs.tasks.size() != plan.roles.size())
    throw Error(Code::invalid_argument, fmt::format("[predict] costs of {} actors; expected one for each of {} roles", costs.actors.size(), plan.roles.size()));
  std::vector<WorkerTerms> all;
  const auto passes = passes_of(plan);
  for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r) all.push_back(terms_of_role(plan, r, passes[at(r)], costs));
  return all;
}

bool gathers_units(const Role& role) {
  return std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::release; });
}

UnitTerms unit_terms_of(const Plan& plan, const Spec& strategy, const StepCosts& costs) {
  const auto& role = plan.roles[0];
  UnitTerms terms;
  terms.micro_batches = plan.micro_batches;
  terms.units.resize(plan.stages.size());
  if (const auto told = strategy.options.find("prefetch"); told != strategy.options.end()) terms.prefetch = std::stoi(told->second);
  if (const auto told = strategy.options.find("reshard"); told != strategy.options.end()) terms.reshard = told->second != "off";
  const std::vector<int>* tied = nullptr;
  for (std::size_t b = 0; b < role.buckets.size(); ++b) {
    if (role.buckets[b].stage == kNone) tied = &role.buckets[b].parameters;
    else terms.units.at(at(role.buckets[b].stage)).ready = costs.ready[0][b];
  }
  for (std::size_t u = 0; u < terms.units.size() && tied != nullptr; ++u) {
    const auto& own = plan.stages[u].parameters;
    terms.units[u].reads_tied = std::any_of(tied->begin(), tied->end(), [&](int parameter) { return std::binary_search(own.begin(), own.end(), parameter); });
  }
  const double m = plan.micro_batches;
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    const double seconds = costs.tasks[0][t].seconds;
    const int stage = task.bucket == kNone ? task.stage : role.buckets[at(task.bucket)].stage;
    const bool of_tied = task.bucket != kNone && stage == kNone;
    auto* unit = of_tied ? nullptr : &terms.units.at(at(stage));
    switch (task.kind) {
      case TaskKind::load: terms.load += seconds; break;
      case TaskKind::forward: unit->forward += seconds / m; break;
      case TaskKind::backward: unit->backward += seconds / m; break;
      case TaskKind::update: (of_tied ? terms.tied_update : unit->update) += seconds; break;
      case TaskKind::collective:
        if (task.cargo == Cargo::control || task.cargo == Cargo::norms) terms.control += seconds;
        else if (task.goal == Goal::all_reduce) (of_tied ? terms.tied_reduce : unit->replicas) += seconds;
        else if (task.cargo == Cargo::parameters) (of_tied ? terms.tied_gather : unit->gather) = seconds;
        else if (of_tied) terms.tied_reduce += seconds;
        else unit->reduce = seconds;
        break;
      default: break;
    }
  }
  terms.harness = costs.harness[0].seconds;
  terms.loader = source_seconds(costs, 0);
  return terms;
}

std::vector<ServerTerm> server_terms_of(const Plan& plan, const StepCosts& costs) {
  std::vector<ServerTerm> all;
  const bool apart = steps_apart(plan);
  const auto longest = [&](int role, int peer, int bucket, TaskKind kind, Cargo cargo, Stream stream) {
    double most = 0;
    const auto& tasks = plan.roles[at(role)].tasks;
    for (std::size_t t = 0; t < tasks.size(); ++t)
      if (tasks[t].kind == kind && tasks[t].cargo == cargo && tasks[t].stream == stream && tasks[t].bucket == bucket && (peer == kNone || tasks[t].peer == peer))
        most = std::max(most, costs.tasks[at(role)][t].seconds);
    return most;
  };
  for (int server = 0; server < plan.serving.servers; ++server) {
    auto& own = all.emplace_back();
    own.update = longest(server, kNone, server, TaskKind::update, Cargo::none, Stream::server);
    for (int role = 0; role < static_cast<int>(plan.roles.size()); ++role) {
      own.ready.push_back(costs.ready[at(role)][at(server)]);
      own.push.push_back(std::max(longest(role, server, server, TaskKind::send, Cargo::gradients, Stream::communication),
                                  apart ? 0 : longest(server, role, server, TaskKind::receive, Cargo::gradients, Stream::server)));
      own.pull.push_back(std::max(longest(role, server, server, TaskKind::receive, Cargo::parameters, Stream::communication),
                                  apart ? 0 : longest(server, role, server, TaskKind::send, Cargo::parameters, Stream::server)));
      own.take.push_back(longest(role, kNone, server, TaskKind::average, Cargo::parameters, Stream::compute));
    }
  }
  return all;
}

}  // namespace ddl
