#include "ddl/predict/explain/causes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>

#include "ddl/core/at.h"
#include "ddl/plan/bucket_events.h"
#include "ddl/plan/meetings.h"
#include "ddl/predict/step/server_turns.h"

namespace ddl {
namespace {

/// Of a worker, what it computes and what it does besides.
struct Busy {
  double compute = 0, other = 0;
};

Busy busy_of(const Role& role, const std::vector<double>& tasks, double rest) { return {seconds_of(role, tasks, Work::compute), seconds_of(role, tasks, Work::other) + rest}; }

/// What all workers do of one batch. Of those that step apart whoever is slower does fewer; and a server applies what each of them pushes.
Busy all_busy(const Plan& plan, const StepDraw& step) {
  const bool apart = steps_apart(plan);
  std::vector<double> compute, other;
  double applied = 0;
  for (int w = 0; w < plan.workers(); ++w) {
    const auto& role = plan.role_of(w);
    auto own = busy_of(role, step.tasks[at(w)], step.rest[at(w)]);
    for (std::size_t t = 0; t < role.tasks.size() && apart; ++t)
      if (const auto& task = role.tasks[t]; task.stream == Stream::server && work_of(task) == Work::other && !std::isnan(step.tasks[at(w)][t])) {
        own.other -= step.tasks[at(w)][t];
        applied += step.tasks[at(w)][t] * times_a_step(plan, task);
      }
    compute.push_back(own.compute);
    other.push_back(own.other);
  }
  return {mean_of_workers(compute, apart) * plan.workers(), mean_of_workers(other, apart) * plan.workers() + applied};
}

/// `part` of a whole, as a factor; 1 where there is nothing to divide.
double factor(double wanted, double present) { return present > 0 ? wanted / present : 1; }

/// Workers that step apart take the same in all, by which together they do as much as they did.
void level_apart(const Plan& plan, std::vector<std::vector<double>>& tasks, std::vector<double>& rest) {
  const auto is_own = [](const Task& task) { return task.stream != Stream::server && (work_of(task) == Work::compute || work_of(task) == Work::other); };
  std::vector<double> busy;
  for (int w = 0; w < plan.workers(); ++w) {
    const auto& role = plan.role_of(w);
    busy.push_back(rest[at(w)]);
    for (std::size_t t = 0; t < role.tasks.size(); ++t)
      if (is_own(role.tasks[t])) busy.back() += tasks[at(w)][t];
  }
  const double mean = mean_of_workers(busy, true);
  for (int w = 0; w < plan.workers(); ++w) {
    const auto& role = plan.role_of(w);
    const double times = factor(mean, busy[at(w)]);
    rest[at(w)] *= times;
    for (std::size_t t = 0; t < role.tasks.size(); ++t)
      if (is_own(role.tasks[t])) tasks[at(w)][t] *= times;
  }
}

/// Workers of a role take what they take on the mean, task by task; roles, which do other tasks, the same in all.
void level(const Plan& plan, std::vector<std::vector<double>>& tasks, std::vector<double>& rest) {
  for (const auto& role : plan.roles) {
    std::vector<double> mean(role.tasks.size());
    double mean_rest = 0;
    for (int w = role.first; w < role.first + role.count; ++w) {
      for (std::size_t t = 0; t < mean.size(); ++t) mean[t] += tasks[at(w)][t] / role.count;
      mean_rest += rest[at(w)] / role.count;
    }
    for (int w = role.first; w < role.first + role.count; ++w) {
      for (std::size_t t = 0; t < mean.size(); ++t)
        if (work_of(role.tasks[t]) == Work::compute || work_of(role.tasks[t]) == Work::other) tasks[at(w)][t] = mean[t];
      rest[at(w)] = mean_rest;
    }
  }
  Busy mean;
  for (int w = 0; w < plan.workers(); ++w) {
    const auto own = busy_of(plan.role_of(w), tasks[at(w)], rest[at(w)]);
    mean.compute += own.compute / plan.workers();
    mean.other += own.other / plan.workers();
  }
  for (int w = 0; w < plan.workers(); ++w) {
    const auto& role = plan.role_of(w);
    const auto own = busy_of(role, tasks[at(w)], rest[at(w)]);
    for (std::size_t t = 0; t < role.tasks.size(); ++t) {
      if (work_of(role.tasks[t]) == Work::compute) tasks[at(w)][t] *= factor(mean.compute, own.compute);
      if (work_of(role.tasks[t]) == Work::other) tasks[at(w)][t] *= factor(mean.other, own.other);
    }
    // A worker without any has its share of others' as bookkeeping.
    if (own.other > 0) rest[at(w)] *= mean.other / own.other;
    else rest[at(w)] = mean.other;
    if (own.compute <= 0) rest[at(w)] += mean.compute;
  }
}

}  // namespace

std::string_view name(LossCause cause) {
  constexpr std::array<std::string_view, kLossCauses> kNames{"fabric", "latency", "jitter", "loader", "bubble", "unequal", "contention", "compute", "undivided"};
  return kNames[static_cast<std::size_t>(cause)];
}

std::string_view words(LossCause cause) {
  constexpr std::array<std::string_view, kLossCauses> kWords{"bytes on their way between workers",
                                                             "the latency of messages",
                                                             "steps that take now longer, now shorter",
                                                             "waiting for batches",
                                                             "the bubble of the pipeline",
                                                             "workers that take longer than others",
                                                             "cores and memory that workers and their collectives share",
                                                             "computing that takes longer in parts than in one piece",
                                                             "what each worker does all over (updates, bookkeeping)"};
  return kWords[static_cast<std::size_t>(cause)];
}

void drop_beside(const std::vector<Overlap>& overlaps, const std::vector<Slowed>& slowed, std::vector<double>& tasks) {
  for (const auto& overlap : overlaps) {
    const auto& times = slowed[at(overlap.collective)];
    tasks[at(overlap.compute)] -= overlap.alone * (1 - 1 / times.compute);
    tasks[at(overlap.collective)] -= overlap.seconds * (1 - 1 / times.collective);
  }
  // Medians of what went on beside a task are no median task's.
  for (auto& seconds : tasks) seconds = std::isnan(seconds) ? seconds : std::max(0.0, seconds);
}

void drop_company(const Plan& plan, const std::vector<double>& contention, std::vector<std::vector<double>>& tasks) {
  for (std::size_t w = 0; w < contention.size(); ++w) {
    const auto& role = plan.role_of(static_cast<int>(w));
    for (std::size_t t = 0; t < tasks[w].size(); ++t)
      if (work_of(role.tasks[t]) == Work::compute) tasks[w][t] /= contention[w];
  }
}

void find_alone(const Plan& plan, const StepDraws& draws, KnownCosts& known) {
  known.ready_alone = draws.ready;
  auto alone = draws.medians;
  for (std::size_t w = 0; w < known.beside.size(); ++w) drop_beside(alone.overlaps[w], known.beside[w], alone.tasks[w]);
  auto without_company = alone;
  drop_company(plan, known.contention, without_company.tasks);
  const auto all = all_busy(plan, without_company);
  known.compute_alone = all.compute;
  known.other_alone = all.other;
  if (known.beside.empty()) return;
  for (std::size_t r = 0; r < plan.roles.size(); ++r) {
    const auto& role = plan.roles[r];
    const BucketEvents events(plan, role);
    std::vector<bool> found(role.buckets.size());
    for (const auto& task : role.tasks) {
      const int backward = task.waits_for == kNone ? kNone : events.raised_by(task);
      // Of a bucket that is complete after each pass the first tells, as in `ready`.
      if (backward == kNone || found[at(task.waits_for)]) continue;
      found[at(task.waits_for)] = true;
      // What was slowed before the event counts before it. Of a role's workers the mean.
      const double raised = draws.ready[r][at(task.waits_for)];
      double share = 0;
      for (int w = role.first; w < role.first + role.count; ++w) {
        const double whole = draws.medians.tasks[at(w)][at(backward)], left = alone.tasks[at(w)][at(backward)];
        double before = raised * whole;
        for (const auto& overlap : draws.medians.overlaps[at(w)])
          if (overlap.compute == backward && overlap.to > overlap.from)
            before -= overlap.alone * (1 - 1 / known.beside[at(w)][at(overlap.collective)].compute) * std::clamp((raised - overlap.from) / (overlap.to - overlap.from), 0.0, 1.0);
        share += (left > 0 ? std::clamp(before / left, 0.0, 1.0) : raised) / role.count;
      }
      known.ready_alone[r][at(task.waits_for)] = share;
    }
  }
}

bool is_of_stages(const Task& task) { return is_transfer(task) && (task.cargo == Cargo::activations || task.cargo == Cargo::activation_gradients); }

Plan without_bubble(const Plan& plan) {
  Plan out = plan;
  for (auto& role : out.roles)
    for (auto& task : role.tasks)
      std::erase_if(task.after, [&](int other) { return is_of_stages(role.tasks[at(other)]) && role.tasks[at(other)].kind == TaskKind::receive; });
  return out;
}

StepCosts costs_without(const Plan& plan, const StepDraws& draws, const StepDraw& step, const KnownCosts& known, CauseSet away) {
  const auto is_away = [&](LossCause cause) { return (away & bit(cause)) != 0; };
  const auto workers = plan.workers();
  auto tasks = step.tasks;
  auto rest = step.rest;
  for (std::size_t w = 0; w < tasks.size(); ++w)
    for (std::size_t t = 0; t < tasks[w].size(); ++t)
      if (std::isnan(tasks[w][t])) tasks[w][t] = draws.medians.tasks[w][t];

  const bool apart = is_away(LossCause::contention) && !known.beside.empty();
  for (std::size_t w = 0; w < tasks.size() && apart; ++w) drop_beside(step.overlaps[w], known.beside[w], tasks[w]);
  // Before workers are made alike: what slows one of them may not slow the others.
  if (is_away(LossCause::contention)) drop_company(plan, known.contention, tasks);
  if (is_away(LossCause::unequal) && draws.apart) level_apart(plan, tasks, rest);
  else if (is_away(LossCause::unequal)) level(plan, tasks, rest);
  const double compute = is_away(LossCause::compute) ? factor(known.one.compute, known.compute_alone) : 1;
  const double other = is_away(LossCause::undivided) ? factor(known.one.other, known.other_alone) : 1;

  StepCosts costs;
  costs.actors = workers_as_actors(plan);
  costs.ready = apart ? known.ready_alone : draws.ready;
  costs.ends_apart = true;
  for (int w = 0; w < workers; ++w) {
    const auto& role = plan.role_of(w);
    auto& own = costs.tasks.emplace_back();
    for (std::size_t t = 0; t < role.tasks.size(); ++t) {
      double seconds = tasks[at(w)][t];
      switch (work_of(role.tasks[t])) {
        case Work::load:
          if (is_away(LossCause::loader)) seconds = std::min(seconds, known.one.load / workers);
          else if (draws.loader[at(w)] > 0) seconds = 0;  // the loader itself is waited for
          break;
        case Work::compute: seconds *= compute; break;
        case Work::other: seconds *= other; break;
        case Work::communicate: {
          const double latency = known.latency.empty() ? 0 : std::min(seconds, known.latency[at(w)][t]);
          const double moving = is_away(LossCause::fabric) ? 0 : seconds - latency;
          seconds = moving + (is_away(LossCause::latency) ? 0 : latency);
          if (is_away(LossCause::bubble) && is_of_stages(role.tasks[t])) seconds = 0;
          break;
        }
      }
      own.push_back({seconds, {}, is_away(LossCause::fabric) ? 0 : step.handing[at(w)][t]});
    }
    costs.harness.push_back({rest[at(w)] * other});
    costs.loader.push_back({is_away(LossCause::loader) ? 0 : draws.loader[at(w)], {}});
  }
  return costs;
}

}  // namespace ddl
