#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_set>

#include "ddl/core/error.h"
#include "ddl/core/units.h"
#include "ddl/plan/meetings.h"

namespace ddl {
namespace {

using Findings = std::vector<std::string>;

std::size_t at(int number) { return static_cast<std::size_t>(number); }

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

/// Numbers that stand for something that is there.
void check_tasks(const Plan& plan, const Role& role, Findings& findings) {
  const auto is_below = [](int number, std::size_t count) { return number >= 0 && number < static_cast<int>(count); };
  std::unordered_set<std::string_view> labels;
  const auto wrong = [&](const Task& task, const std::string& what) { findings.push_back(fmt::format("{}: '{}' {}", role.name, task.label, what)); };
  for (const auto& task : role.tasks) {
    if (!labels.insert(task.label).second) findings.push_back(fmt::format("{}: two tasks are called '{}'", role.name, task.label));
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

/// Runs the queues of all roles without time (Kahn 1962). A role stands for its workers: they do the same. Tasks of one meeting are one event,
/// which happens once all of them may.
class Run {
 public:
  Run(const Plan& plan, const std::vector<std::vector<int>>& numbers) : plan_(plan) {
    for (const auto& role : plan.roles) {
      offset_.push_back(tasks_);
      tasks_ += role.tasks.size();
    }
    node_.resize(tasks_);
    std::iota(node_.begin(), node_.end(), Node{0});
    std::vector<std::size_t> first;
    for (std::size_t r = 0; r < plan.roles.size(); ++r)
      for (std::size_t t = 0; t < numbers[r].size(); ++t) {
        if (numbers[r][t] == kNone) continue;
        const auto number = at(numbers[r][t]);
        if (first.size() <= number) first.resize(number + 1, tasks_);
        if (first[number] == tasks_) first[number] = offset_[r] + t;
        node_[offset_[r] + t] = static_cast<Node>(first[number]);
      }
    open_.resize(tasks_);
    for (const auto& role : plan.roles) queues_.push_back(queues(role));
    for (std::size_t r = 0; r < plan.roles.size(); ++r) connect(r, numbers[r]);
    sort_edges();
  }

  void go(Findings& findings) {
    std::vector<std::size_t> ready;
    for (std::size_t n = 0; n < tasks_; ++n)
      if (node_[n] == n && open_[n] == 0) ready.push_back(n);
    std::vector<bool> done(tasks_);
    while (!ready.empty()) {
      const auto n = ready.back();
      ready.pop_back();
      done[n] = true;
      for (std::size_t e = first_edge_[n]; e < first_edge_[n + 1]; ++e)
        if (--open_[next_[e]] == 0) ready.push_back(next_[e]);
    }
    for (std::size_t r = 0; r < plan_.roles.size(); ++r)
      for (const auto& queue : queues_[r])
        for (const int t : queue)
          if (!done[node_[offset_[r] + at(t)]]) {
            const auto& task = plan_.roles[r].tasks[at(t)];
            findings.push_back(fmt::format("deadlock: {} cannot start '{}' on its {} stream", plan_.roles[r].name, task.label, name(task.stream)));
            break;
          }
  }

 private:
  /// A number of a task among all: of half the memory, which is what takes the time.
  using Node = std::uint32_t;

  static std::vector<std::vector<int>> queues(const Role& role) {
    std::vector<std::vector<int>> all(2);  // computation, and what a server does of that
    for (std::size_t t = 0; t < role.tasks.size(); ++t)
      if (!communicates(role.tasks[t])) all[role.tasks[t].stream == Stream::server ? 1 : 0].push_back(static_cast<int>(t));
    for (auto& [key, tasks] : communication_queues(role)) all.push_back(tasks);
    return all;
  }

  void edge(std::size_t from, std::size_t to) {
    edges_.emplace_back(node_[from], node_[to]);
    ++open_[node_[to]];
  }

  /// By where they begin, in one piece of memory: a vector for each of millions of tasks takes longer than all the rest.
  void sort_edges() {
    first_edge_.resize(tasks_ + 1);
    for (const auto& [from, to] : edges_) ++first_edge_[from + 1];
    std::partial_sum(first_edge_.begin(), first_edge_.end(), first_edge_.begin());
    next_.resize(edges_.size());
    auto place = first_edge_;
    for (const auto& [from, to] : edges_) next_[place[from]++] = to;
    edges_ = {};
  }

  void connect(std::size_t r, const std::vector<int>& numbers) {
    const auto& role = plan_.roles[r];
    const auto base = offset_[r];
    for (const auto& queue : queues_[r])
      for (std::size_t k = 1; k < queue.size(); ++k) edge(base + at(queue[k - 1]), base + at(queue[k]));
    // Backward raises its events while it runs: one counts once the last backward of its stage may have run.
    std::vector<int> last_backward(plan_.stages.size(), kNone);
    std::map<std::pair<int, int>, int> backwards;  // by stage and micro-batch
    for (std::size_t t = 0; t < role.tasks.size(); ++t)
      if (role.tasks[t].kind == TaskKind::backward || role.tasks[t].kind == TaskKind::backward_weight)
        last_backward[at(role.tasks[t].stage)] = backwards[{role.tasks[t].stage, role.tasks[t].micro_batch}] = static_cast<int>(t);
    for (std::size_t t = 0; t < role.tasks.size(); ++t) {
      const auto& task = role.tasks[t];
      for (const int other : task.after) edge(base + at(other), base + t);
      if (task.waits_for != kNone) {
        const int stage = role.buckets[at(task.waits_for)].stage;
        const auto pass = std::pair(stage, task.micro_batch);
        const int backward = stage == kNone                                     ? *std::max_element(last_backward.begin(), last_backward.end())
                             : !role.buckets[at(task.waits_for)].every_pass     ? last_backward[at(stage)]
                             : backwards.count(pass) > 0                        ? backwards.at(pass)
                                                                                : kNone;
        if (backward == kNone)
          ++open_[node_[base + t]];  // never raised
        else
          edge(base + at(backward), base + t);
      }
      const bool alone = numbers[t] == kNone;
      if (communicates(task) && alone) ++open_[node_[base + t]];  // nobody meets it
    }
  }

  const Plan& plan_;
  std::size_t tasks_ = 0;
  std::vector<std::size_t> offset_;             ///< of each role's first task among all
  std::vector<Node> node_;                      ///< that stands for the task
  std::vector<int> open_;                       ///< by node: what must come before
  std::vector<std::vector<std::vector<int>>> queues_;         ///< by role
  std::vector<std::pair<Node, Node>> edges_;                  ///< between nodes, as they were found
  std::vector<std::size_t> first_edge_;                       ///< by node
  std::vector<Node> next_;                                    ///< where they lead
};

}  // namespace

std::vector<std::string> verify(const Plan& plan, int parameters, std::int64_t memory_limit) {
  Findings findings;
  check_workers(plan, findings);
  check_groups(plan, findings);
  if (!findings.empty()) return findings;
  for (const auto& role : plan.roles) check_tasks(plan, role, findings);
  check_parameters(plan, parameters, findings);
  if (findings.empty()) {
    int deepest = 0;
    for (const auto& role : plan.roles) deepest = std::max(deepest, depth(role));
    std::optional<Plan> unrolled;
    const auto& run = deepest > 0 ? unrolled.emplace(unroll(plan, 2 * deepest + 1)) : plan;
    const auto numbers = meetings(run);
    check_meetings(run, numbers, findings);
    Run(run, numbers).go(findings);
  }
  for (const auto& role : plan.roles)
    if (memory_limit > 0 && role.holds.total() > memory_limit)
      findings.push_back(fmt::format("{} holds {} ({}), more than the limit of {}", role.name, to_string(Bytes{role.holds.total()}), to_string(role.holds), to_string(Bytes{memory_limit})));
  return findings;
}

}  // namespace ddl
