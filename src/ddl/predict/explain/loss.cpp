#include "ddl/predict/explain/loss.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <span>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/peers.h"
#include "ddl/predict/explain/shapley.h"
#include "ddl/predict/step/simulate_step.h"

namespace ddl {
namespace {

/// Tasks that are simulated in about four seconds.
constexpr double kMostTasks = 6e6;
/// Of workers that step apart a faster one is simulated for at most so many times the traced steps.
constexpr double kMostRounds = 4;
/// Fewer steps say nothing of what differs between them.
constexpr std::size_t kFewestSteps = 3;

std::vector<int> among(const Plan& plan, int worker, const Task& task) {
  if (!is_transfer(task)) return members(plan.mesh, plan.groups[at(task.group)], worker);
  const int peer = peer_of(plan, worker, task);
  return {worker, peer == kNone ? worker : peer};
}

/// By worker and task; empty where something is not known.
std::vector<std::vector<double>> latencies(const LossInput& input) {
  std::vector<std::vector<double>> out;
  if (!input.latency) return out;
  for (int w = 0; w < input.plan.workers(); ++w) {
    auto& own = out.emplace_back();
    for (const auto& task : input.plan.role_of(w).tasks) {
      const auto known = communicates(task) ? input.latency(task, among(input.plan, w, task)) : std::optional(0.0);
      if (!known) return {};
      own.push_back(*known);
    }
  }
  return out;
}

/// KnownCosts::beside.
std::vector<std::vector<Slowed>> slowed_beside(const LossInput& input) {
  std::vector<std::vector<Slowed>> out;
  if (!input.beside) return out;
  bool any = false;
  for (int w = 0; w < input.plan.workers(); ++w) {
    auto& own = out.emplace_back();
    for (const auto& task : input.plan.role_of(w).tasks) own.push_back(task.kind == TaskKind::collective ? input.beside(w, task) : Slowed{});
    for (const auto& step : input.draws.steps)
      for (const auto& overlap : step.overlaps[at(w)]) any |= std::max(own[at(overlap.collective)].compute, own[at(overlap.collective)].collective) > 1;
  }
  if (!any) out.clear();
  return out;
}

/// What one worker would take, as far as the workers' own steps tell: all that they compute, and of what each does all over, one's. Servers and shards update a part each: all of it.
/// Of workers that step apart whoever is slower computes fewer batches.
OneWorker one_from(const Plan& plan, const StepDraws& draws, const KnownCosts& known) {
  OneWorker one;
  auto alone = draws.medians.tasks;
  for (std::size_t w = 0; w < known.beside.size(); ++w) drop_beside(draws.medians.overlaps[w], known.beside[w], alone[w]);
  drop_company(plan, known.contention, alone);
  std::vector<double> compute;
  for (const auto& role : plan.roles) {
    double other = 0;
    for (int w = role.first; w < role.first + role.count; ++w) {
      compute.push_back(seconds_of(role, alone[at(w)], Work::compute));
      other += seconds_of(role, alone[at(w)], Work::other) / role.count;
    }
    one.other += other * (plan.serving.servers > 0 ? role.count : plan.mesh.size("sharded") * plan.parts());
  }
  one.compute = mean_of_workers(compute, draws.apart) * plan.workers();
  for (const double rest : draws.medians.rest) one.other += rest / plan.workers();
  return one;
}

class Simulator {
 public:
  /// The last `draws` steps.
  Simulator(const LossInput& input, const KnownCosts& known, std::size_t draws)
      : input_(input), known_(known), unbound_(without_bubble(input.plan)), range_(steps_to_simulate(input.plan)), drawn_(std::span(input.draws.steps).last(draws)) {}

  double seconds(CauseSet away) {
    const auto [place, unknown] = known_seconds_.try_emplace(away);
    if (unknown) place->second = simulate(away);
    return place->second;
  }

 private:
  double simulate(CauseSet away) const {
    const auto& plan = (away & bit(LossCause::bubble)) != 0 ? unbound_ : input_.plan;
    const auto costs = [&](const StepDraw& step) { return costs_without(plan, input_.draws, step, known_, away); };
    // Without messages that they wait for, stages of a plan without a flush are as fast as the slowest of them.
    const auto of_run = [&](const StepSimulation& run) { return (away & bit(LossCause::bubble)) != 0 && plan.asynchronous() ? slowest(run) : run.step_seconds; };
    if ((away & bit(LossCause::jitter)) != 0) return of_run(simulate_steps(plan, costs(input_.draws.medians), range_.steps, range_.first));
    // One after the other, since what one worker is late by in the end of a step may be hidden by what another is in the next. What comes before them is like the first, what comes after like the last.
    const bool apart = input_.draws.apart;
    std::vector<StepCosts> all(apart ? 1 : at(range_.lead), costs(drawn_.front()));
    for (const auto& step : drawn_) all.push_back(costs(step));
    const auto last = all.back();
    for (int after = 0; after < range_.tail; ++after) all.push_back(last);
    const int turns = apart ? std::max(range_.steps, range_.lead + static_cast<int>(drawn_.size()) * rounds()) : 0;
    return of_run(simulate_each_step(plan, all, static_cast<int>(std::max<std::int64_t>(range_.first, drawn_.front().number - 1)), turns));
  }

  static double slowest(const StepSimulation& run) {
    double most = 0;
    for (std::size_t a = 0; a < run.traced.size(); ++a) most = std::max(most, ddl::seconds(run.traced[a].end - run.traced[a].begin) / static_cast<double>(run.steps[a].size()));
    return most;
  }

  /// How often the fastest of workers that step apart comes round while the slowest does its steps once.
  int rounds() const {
    const auto [least, most] = std::minmax_element(input_.draws.workers.begin(), input_.draws.workers.end());
    return *least > 0 ? static_cast<int>(std::clamp(std::ceil(*most / *least), 1.0, kMostRounds)) : 1;
  }

  const LossInput& input_;
  const KnownCosts& known_;
  Plan unbound_;
  StepRange range_;
  std::span<const StepDraw> drawn_;
  std::map<CauseSet, double> known_seconds_;
};

/// Which causes there can be, in this run.
std::vector<LossCause> causes_of(const LossInput& input, const KnownCosts& known) {
  const auto& plan = input.plan;
  bool communication = false, stages = false;
  for (const auto& role : plan.roles)
    for (const auto& task : role.tasks) {
      communication |= communicates(task);
      stages |= is_of_stages(task);
    }
  double load = 0;
  for (int w = 0; w < plan.workers(); ++w) load = std::max({load, input.draws.loader[at(w)], seconds_of(plan.role_of(w), input.draws.medians.tasks[at(w)], Work::load)});
  std::vector<LossCause> out;
  if (communication) out.push_back(LossCause::fabric);
  if (communication && !known.latency.empty()) out.push_back(LossCause::latency);
  if (input.draws.steps.size() >= kFewestSteps) out.push_back(LossCause::jitter);
  if (load > 0) out.push_back(LossCause::loader);
  if (stages) out.push_back(LossCause::bubble);
  if (plan.workers() > 1) out.push_back(LossCause::unequal);
  if (std::any_of(known.contention.begin(), known.contention.end(), [](double times) { return times > 1; }) || !known.beside.empty()) out.push_back(LossCause::contention);
  if (input.one) out.push_back(LossCause::compute);
  if (plan.workers() > 1) out.push_back(LossCause::undivided);
  return out;
}

std::size_t draws_for(const LossInput& input, std::size_t causes) {
  double tasks = 0;
  for (const auto& role : input.plan.roles) tasks += static_cast<double>(role.tasks.size() + 2) * role.count;
  const double sets = static_cast<double>(std::size_t{1} << causes) / 2;
  const auto range = steps_to_simulate(input.plan);
  const auto draws = static_cast<std::size_t>(std::clamp(kMostTasks / (sets * tasks) - (range.lead + range.tail - 1), 1.0, static_cast<double>(input.draws.steps.size())));
  // Whole rounds, of steps of which some do what others do not.
  const auto round = static_cast<std::size_t>(std::max(1, range.round));
  return draws < round ? std::min(round, input.draws.steps.size()) : draws - draws % round;
}

}  // namespace

LossReport attribute_loss(const LossInput& input) {
  KnownCosts known;
  known.latency = latencies(input);
  invariant(input.contention.empty() || input.contention.size() == at(input.plan.workers()), "what workers compute beside others is told of all of them or of none");
  for (const double times : input.contention) known.contention.push_back(std::max(1.0, times));
  known.beside = slowed_beside(input);
  known.one = input.one ? *input.one : one_from(input.plan, input.draws, known);
  find_alone(input.plan, input.draws, known);
  const auto causes = causes_of(input, known);
  const auto players = static_cast<int>(causes.size());

  LossReport out;
  out.workers = input.plan.workers();
  out.apart = input.draws.apart;
  out.worker_steps = input.draws.workers;
  out.measured = input.draws.seconds();
  out.one = known.one;
  out.one_measured = input.one.has_value();
  out.speedup = known.one.seconds() / out.measured;
  out.drawn = draws_for(input, causes.size());
  Simulator simulator(input, known, out.drawn);
  const auto speedup = [&](CauseSet away) {
    const double seconds = simulator.seconds(away);
    return seconds > 0 ? known.one.seconds() / seconds : 0;
  };
  std::vector<double> worth(std::size_t{1} << players);
  for (std::size_t set = 0; set < worth.size(); ++set) {
    CauseSet away = 0;
    for (int p = 0; p < players; ++p)
      if ((set >> p & 1) != 0) away |= bit(causes[at(p)]);
    worth[set] = speedup(away);
  }
  const auto lost = shapley_values(players, worth);
  out.simulated = simulator.seconds(0);
  out.not_explained = out.loss();
  // What is lost to a loader is what one worker does not wait as well; what would be gained without it is all of it.
  auto freely = known;
  freely.one.load = 0;
  Simulator without_loads(input, freely, out.drawn);
  for (int p = 0; p < players; ++p) {
    const bool loader = causes[at(p)] == LossCause::loader;
    const double without = (loader ? without_loads : simulator).seconds(bit(causes[at(p)]));
    const double reached = loader && without > 0 ? known.one.seconds() / without : worth[std::size_t{1} << p];
    out.parts.push_back({causes[at(p)], lost[at(p)], without, out.speedup + reached - worth[0]});
    out.not_explained -= lost[at(p)];
  }
  std::stable_sort(out.parts.begin(), out.parts.end(), [](const CausePart& a, const CausePart& b) { return a.lost > b.lost; });
  const auto applies = [&](LossCause cause) { return std::find(causes.begin(), causes.end(), cause) != causes.end(); };
  if (applies(LossCause::fabric) && !applies(LossCause::latency)) out.not_known.push_back(LossCause::latency);
  if (out.workers > 1 && input.contention.empty()) out.not_known.push_back(LossCause::contention);
  if (out.workers > 1 && !input.one) out.not_known.push_back(LossCause::compute);
  return out;
}

}  // namespace ddl
