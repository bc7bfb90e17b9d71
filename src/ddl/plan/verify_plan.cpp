#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <string_view>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/run_queues.h"

namespace ddl {
namespace {

using Findings = std::vector<std::string>;

void check_workers(const Plan& plan, Findings& findings) {
  int next = 0;
  for (const auto& role : plan.roles) {
    if (role.first != next) findings.push_back(fmt::format("workers {} to {} are in no role or in two", std::min(role.first, next), std::max(role.first, next) - 1));
    next = role.first + role.count;
  }
  if (next != plan.workers()) findings.push_back(fmt::format("roles cover {} workers, the plan has {}", next, plan.workers()));
}

void check_groups(const Plan& plan, Findings& findings) {
  for (const auto& group : plan.groups)
    for (const auto& [axis, only] : group.along) {
      if (axis < 0 || axis >= static_cast<int>(plan.mesh.axes.size())) {
        findings.push_back(fmt::format("group '{}' is along axis {}; the mesh has {}", group.name, axis, plan.mesh.axes.size()));
        continue;
      }
      for (const int place : only)
        if (place < 0 || place >= plan.mesh.axes[at(axis)].size)
          findings.push_back(fmt::format("group '{}' is at place {} of axis '{}', which has {}", group.name, place, plan.mesh.axes[at(axis)].name,
                                         plan.mesh.axes[at(axis)].size));
    }
}

/// In one piece of memory: millions of labels that are allocated one by one take longer than all other checks.
class LabelSet {
 public:
  explicit LabelSet(std::size_t most) : slots_(std::bit_ceil(2 * most + 1)) {}

  /// Whether it is new. What is inserted stays where it is.
  bool insert(std::string_view label) {
    const auto mask = slots_.size() - 1;
    for (auto slot = std::hash<std::string_view>{}(label) & mask;; slot = (slot + 1) & mask) {
      if (slots_[slot].data() == nullptr) {
        slots_[slot] = label;
        return true;
      }
      if (slots_[slot] == label) return false;
    }
  }

 private:
  std::vector<std::string_view> slots_;
};

/// Numbers that stand for something that is there.
void check_tasks(const Plan& plan, const Role& role, Findings& findings) {
  const auto is_below = [](int number, std::size_t count) { return number >= 0 && number < static_cast<int>(count); };
  LabelSet labels(role.tasks.size());
  const auto wrong = [&](const Task& task, const std::string& what) { findings.push_back(fmt::format("{}: '{}' {}", role.name, task.label, what)); };
  for (const auto& task : role.tasks) {
    if (!labels.insert(task.label)) findings.push_back(fmt::format("{}: two tasks are called '{}'", role.name, task.label));
    for (const int other : task.after)
      if (!is_below(other, role.tasks.size())) wrong(task, fmt::format("is after task {}, which does not exist", other));
    for (const int bucket : {task.bucket, task.waits_for})
      if (bucket != kNone && !is_below(bucket, role.buckets.size())) wrong(task, fmt::format("names bucket {} of {}", bucket, role.buckets.size()));
    if (is_transfer(task) && !is_below(task.peer, plan.roles.size())) wrong(task, fmt::format("has no peer; got role {}", task.peer));
    if (is_transfer(task) && is_below(task.peer, plan.roles.size()) && plan.roles[at(task.peer)].count != role.count &&
        (plan.serving.servers == 0 || std::min(role.count, plan.roles[at(task.peer)].count) != 1))
      wrong(task, fmt::format("is between roles of {} and {} workers; expected as many", role.count, plan.roles[at(task.peer)].count));
    if (is_transfer(task) && (task.shift != 0 || task.flip != 0)) {
      if (is_below(task.peer, plan.roles.size()) && &plan.roles[at(task.peer)] != &role) wrong(task, "is between places of one role; its peer is another role");
      if (task.flip < 0 || (task.shift != 0 && task.flip != 0)) wrong(task, fmt::format("has a peer {} places on and with bits {} flipped; expected one of them", task.shift, task.flip));
      if (task.flip == 0 && task.shift % std::max(1, role.count) == 0) wrong(task, fmt::format("is to the worker itself; got {} places on of {}", task.shift, role.count));
    }
    if (task.every < 1) wrong(task, fmt::format("is done every {} steps; expected 1 or more", task.every));
    if (task.kind == TaskKind::collective) {
      if (!is_below(task.group, plan.groups.size()))
        wrong(task, fmt::format("has no group; got {}", task.group));
      else if (!plan.groups[at(task.group)].has(plan.mesh, role.first))
        wrong(task, fmt::format("is of group '{}', which its workers are not in", plan.groups[at(task.group)].name));
    }
    if (communicates(task) && task.stream != Stream::communication && task.stream != Stream::server) wrong(task, "communicates; expected on the communication stream");
    for (const int stage : {task.stage, task.to_stage == kNone ? task.stage : task.to_stage})
      if (!is_below(stage, plan.stages.size())) wrong(task, fmt::format("names stage {} of {}", stage, plan.stages.size()));
  }
}

/// Every parameter is used in some stage, every stage held by some role, and every role updates each of its parameters once.
void check_parameters(const Plan& plan, int parameters, Findings& findings) {
  std::vector<bool> used(at(parameters)), held(plan.stages.size());
  for (const auto& role : plan.roles)
    for (const int stage : role.stages)
      if (stage >= 0 && at(stage) < held.size()) held[at(stage)] = true;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int parameter : plan.stages[s].parameters)
      if (parameter < 0 || parameter >= parameters)
        findings.push_back(fmt::format("stage {} uses parameter {}; there are {}", s, parameter, parameters));
      else
        used[at(parameter)] = true;
    if (!held[s]) findings.push_back(fmt::format("stage {} is held by nobody", s));
  }
  for (int i = 0; i < parameters; ++i)
    if (!used[at(i)]) findings.push_back(fmt::format("parameter {} is in no stage", i));

  std::vector<int> times(at(parameters)), last_seen(at(parameters), -1);
  for (std::size_t r = 0; r < plan.roles.size(); ++r) {
    const auto& role = plan.roles[r];
    std::vector<int> own;
    for (const int stage : role.stages)
      if (stage >= 0 && stage < static_cast<int>(plan.stages.size()))
        for (const int parameter : plan.stages[at(stage)].parameters)
          if (parameter >= 0 && parameter < parameters && last_seen[at(parameter)] != static_cast<int>(r)) {
            last_seen[at(parameter)] = static_cast<int>(r);
            times[at(parameter)] = 0;
            own.push_back(parameter);
          }
    for (const auto& bucket : role.buckets)
      for (const int parameter : bucket.parameters)
        if (parameter < 0 || parameter >= parameters || last_seen[at(parameter)] != static_cast<int>(r))
          findings.push_back(fmt::format("{}: a bucket holds parameter {}, which its stages do not use", role.name, parameter));
        else
          ++times[at(parameter)];
    std::vector<int> updates(role.buckets.size());
    int others = 0;
    for (const auto& task : role.tasks)
      if (task.kind == TaskKind::update && task.bucket == kNone)
        ++others;
      else if (task.kind == TaskKind::update && task.bucket >= 0 && task.bucket < static_cast<int>(updates.size()))
        ++updates[at(task.bucket)];
    const auto left = std::count_if(own.begin(), own.end(), [&](int parameter) { return times[at(parameter)] == 0; });
    for (const int parameter : own)
      if (times[at(parameter)] > 1) findings.push_back(fmt::format("{}: parameter {} is in {} buckets; expected 1", role.name, parameter, times[at(parameter)]));
    // Of buckets that a server has, or the root of a broadcast, the worker gets parameters that are updated.
    std::vector<bool> pulled(role.buckets.size());
    for (const auto& task : role.tasks)
      if (((plan.serving.servers > 0 && task.kind == TaskKind::receive) || (task.kind == TaskKind::collective && task.goal == Goal::broadcast)) && task.cargo == Cargo::parameters && task.bucket >= 0 && task.bucket < static_cast<int>(pulled.size()))
        pulled[at(task.bucket)] = true;
    for (std::size_t b = 0; b < updates.size(); ++b)
      if (updates[b] != 1 && !(updates[b] == 0 && pulled[b])) findings.push_back(fmt::format("{}: bucket {} has {} updates; expected 1", role.name, b, updates[b]));
    if (const int expected = left > 0 ? 1 : 0; others != expected)
      findings.push_back(fmt::format("{}: parameters in no bucket have {} updates; expected {}", role.name, others, expected));
  }
}

/// Events that the same tasks of several roles are: they must be of the same.
void check_meetings(const Plan& plan, const std::vector<std::vector<int>>& numbers, Findings& findings) {
  std::vector<std::pair<int, const Task*>> first;  // role and task, by meeting
  for (std::size_t r = 0; r < plan.roles.size(); ++r)
    for (std::size_t t = 0; t < numbers[r].size(); ++t) {
      if (numbers[r][t] == kNone) continue;
      const auto number = at(numbers[r][t]);
      if (first.size() <= number) first.resize(number + 1, {kNone, nullptr});
      const auto& task = plan.roles[r].tasks[t];
      if (first[number].second == nullptr) {
        first[number] = {static_cast<int>(r), &task};
        continue;
      }
      const auto& [other_role, other] = first[number];
      const auto& here = plan.roles[r].name;
      const auto& there = plan.roles[at(other_role)].name;
      if (!is_transfer(task)) {
        if (other->bytes != task.bytes || other->goal != task.goal || other->cargo != task.cargo)
          findings.push_back(fmt::format("{} joins '{}' ({} bytes) where {} joins '{}' ({} bytes)", here, task.label, task.bytes, there, other->label, other->bytes));
        continue;
      }
      const auto& [sender, send, receiver, receive] =
          task.kind == TaskKind::send ? std::tuple(here, &task, there, other) : std::tuple(there, other, here, &task);
      if (send->bytes != receive->bytes || send->micro_batch != receive->micro_batch || send->stage != receive->stage || send->to_stage != receive->to_stage)
        findings.push_back(fmt::format("{} sends {} bytes as '{}', {} expects {} as '{}'", sender, send->bytes, send->label, receiver, receive->bytes, receive->label));
    }
}

/// Of an asynchronous plan: what goes one way comes in the order in which it is sent, over the ends of steps too. By what they are of, sends and receives meet whatever their order.
void check_order(const Plan& plan, const std::vector<Queues>& queues, const std::vector<std::vector<int>>& numbers, Findings& findings) {
  struct Taken {
    int role = kNone, task = kNone;
    int place = 0;  ///< in its queue
  };
  std::vector<Taken> taken;  // by meeting
  for (std::size_t r = 0; r < plan.roles.size(); ++r)
    for (const auto& [key, tasks] : queues[r])
      for (std::size_t k = 0; key.group == kNone && !key.sends && k < tasks.size(); ++k)
        if (const int number = numbers[r][at(tasks[k])]; number != kNone) {
          if (taken.size() <= at(number)) taken.resize(at(number) + 1);
          taken[at(number)] = {static_cast<int>(r), tasks[k], static_cast<int>(k)};
        }
  // Of a send of step 0: in which step it is taken, and where in that.
  const auto when = [&](std::size_t r, int task) {
    const auto& of = taken[at(numbers[r][at(task)])];
    return std::pair(plan.roles[r].tasks[at(task)].ahead - plan.roles[at(of.role)].tasks[at(of.task)].ahead, of.place);
  };
  for (std::size_t r = 0; r < plan.roles.size(); ++r)
    for (const auto& [key, tasks] : queues[r]) {
      if (key.group != kNone || !key.sends) continue;
      std::vector<int> met;
      std::copy_if(tasks.begin(), tasks.end(), std::back_inserter(met), [&](int task) { return numbers[r][at(task)] != kNone; });
      for (std::size_t k = 0; k < met.size(); ++k) {
        const bool is_last = k + 1 == met.size();
        const int next = met[is_last ? 0 : k + 1];
        auto then = when(r, next);
        then.first += is_last ? 1 : 0;
        if (when(r, met[k]) < then) continue;
        const auto& role = plan.roles[r];
        findings.push_back(fmt::format("{} sends '{}' before '{}'{}, {} expects them in the other order", role.name, role.tasks[at(met[k])].label, role.tasks[at(next)].label,
                                       is_last ? " of the next step" : "", plan.roles[at(key.peer)].name));
      }
    }
}

}  // namespace

std::vector<std::string> verify(const Plan& plan, int parameters, std::int64_t memory_limit) {
  Findings findings;
  check_workers(plan, findings);
  check_groups(plan, findings);
  if (!findings.empty()) return findings;
  for (const auto& role : plan.roles) check_tasks(plan, role, findings);
  check_parameters(plan, parameters, findings);
  if (findings.empty()) {
    const auto all = meetings(plan);
    check_meetings(plan, all.numbers, findings);
    if (all.asynchronous) check_order(plan, all.queues, all.numbers, findings);
    for (auto& found : run_queues(plan, all)) findings.push_back(std::move(found));
  }
  for (const auto& role : plan.roles)
    if (memory_limit > 0 && role.holds.total() > memory_limit)
      findings.push_back(fmt::format("{} holds {} ({}), more than the limit of {}", role.name, to_string(Bytes{role.holds.total()}), to_string(role.holds), to_string(Bytes{memory_limit})));
  return findings;
}

}  // namespace ddl
