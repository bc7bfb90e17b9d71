#include "ddl/predict/closed/price_plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/occasion.h"
#include "ddl/predict/closed/longest_path.h"
#include "ddl/predict/step/jitter.h"
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

/// Whether micro-batches of one share go to several workers: of a stage, which take them by turns, or replicas that one worker leads. Who waits for whom then is in no sum.
bool takes_turns(const Plan& plan) {
  if (plan.roles.size() == 1 || plan.serving.servers > 0) return false;
  // Each place of the mesh's other axes has every stage once.
  const int once = plan.shares() * plan.parts();
  std::vector<int> holders(plan.stages.size());
  for (const auto& role : plan.roles)
    for (const int stage : role.stages) holders[at(stage)] += role.count;
  return std::any_of(holders.begin(), holders.end(), [&](int workers) { return workers > once; });
}

/// Micro-batches that a worker of each role has: of those that several take by turns its own.
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

bool gathers_units(const Role& role) {
  return std::any_of(role.tasks.begin(), role.tasks.end(), [](const Task& task) { return task.kind == TaskKind::release; });
}

/// Of the one role of a plan whose units are gathered.
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

/// By server, and role of workers. A message takes what the longer of its two ends says; where workers step apart the server's end, which is of all workers of a role, says nothing of one.
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

}  // namespace

std::vector<WorkerTerms> terms_of(const Plan& plan, const StepCosts& costs) {
  if (costs.actors.size() != plan.roles.size() || costs.tasks.size() != plan.roles.size())
    throw Error(Code::invalid_argument, fmt::format("[predict] costs of {} actors; expected one for each of {} roles", costs.actors.size(), plan.roles.size()));
  std::vector<WorkerTerms> all;
  const auto passes = passes_of(plan);
  for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r) all.push_back(terms_of_role(plan, r, passes[at(r)], costs));
  return all;
}

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

/// A step of so many seconds of workers that have unlike numbers of passes. Replicas have no bubbles: they wait for who leads them, or it for them.
PricedStep price_turns(double seconds, const Plan& plan, const std::vector<WorkerTerms>& workers) {
  PricedStep out{seconds, {}};
  for (const auto& own : workers) out.seconds = std::max(out.seconds, own.loader);
  const auto passes = passes_of(plan);
  for (std::size_t r = 0; r < workers.size(); ++r) {
    auto ledger = price_with_bubbles(seconds, passes[r], {workers[r]}).workers[0];
    const double later = std::max(0.0, out.seconds - ledger.wall);
    ledger[Cause::bubble] += later;
    ledger.wall += later;
    if (plan.in_process) std::swap(ledger[Cause::wait], ledger[Cause::bubble]);
    out.workers.push_back(ledger);
  }
  return out;
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
  // The simulator has no jitter there either.
  if (plan.asynchronous() && plan.serving.servers == 0) {
    if (!turns && !messages_show(terms)) return no_shorter_than_batches(plan, costs, price_asynchronous(plan.micro_batches, terms));
    const double seconds = LongestPath(plan, costs).step_seconds(std::vector<double>(terms.size(), 1));
    return no_shorter_than_batches(plan, costs, turns ? price_turns(seconds, plan, terms) : price_with_bubbles(seconds, plan.micro_batches, terms));
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
    if (turns) return price_turns(path->step_seconds(times), plan, workers);
    if (path) return price_with_bubbles(path->step_seconds(times), plan.micro_batches, workers);
    // Several micro-batches go behind each other, forward and back.
    if (strategy.name == "model") return plan.micro_batches == 1 ? price_layers(workers) : price_gpipe(plan.micro_batches, workers);
    return schedule == "gpipe" ? price_gpipe(plan.micro_batches, workers) : price_one_f_one_b(plan.micro_batches, workers);
  });
}

}  // namespace ddl
