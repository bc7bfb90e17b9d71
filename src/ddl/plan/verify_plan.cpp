#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ddl/core/error.h"
#include "ddl/plan/plan.h"

namespace ddl {
namespace {

using Findings = std::vector<std::string>;

void check_workers(const Plan& plan, Findings& findings) {
  std::vector<std::pair<int, int>> covered;
  for (const auto& role : plan.roles) covered.emplace_back(role.first, role.first + role.count);
  std::sort(covered.begin(), covered.end());
  int next = 0;
  for (const auto& [first, end] : covered) {
    if (first != next) findings.push_back(fmt::format("workers {} to {} are in no role or in two", std::min(first, next), std::max(first, next) - 1));
    next = end;
  }
  if (next != plan.workers) findings.push_back(fmt::format("roles cover {} workers, the plan has {}", next, plan.workers));
}

/// Also says whether the tasks are sound enough to be run.
bool check_tasks(const Plan& plan, const Role& role, Findings& findings) {
  const auto count = static_cast<int>(role.tasks.size());
  const auto buckets = static_cast<int>(plan.buckets.size());
  std::set<std::string> labels;
  const auto before = findings.size();
  for (const auto& task : role.tasks) {
    if (!labels.insert(task.label).second) findings.push_back(fmt::format("{}: two tasks are called '{}'", role.name, task.label));
    for (const int other : task.after)
      if (other < 0 || other >= count) findings.push_back(fmt::format("{}: '{}' is after task {}, which does not exist", role.name, task.label, other));
    for (const int bucket : {task.bucket, task.waits_for})
      if (bucket < kNone || bucket >= buckets) findings.push_back(fmt::format("{}: '{}' names bucket {} of {}", role.name, task.label, bucket, buckets));
    if ((task.kind == TaskKind::send || task.kind == TaskKind::receive) &&
        (task.peer < 0 || task.peer >= static_cast<int>(plan.roles.size())))
      findings.push_back(fmt::format("{}: '{}' has no peer; got role {}", role.name, task.label, task.peer));
  }
  return findings.size() == before;
}

void check_buckets(const Plan& plan, int parameters, Findings& findings) {
  std::map<int, int> seen;
  for (const auto& bucket : plan.buckets)
    for (const int parameter : bucket.parameters) ++seen[parameter];
  if (plan.buckets.empty()) return;
  for (int i = 0; i < parameters; ++i)
    if (seen[i] != 1) findings.push_back(fmt::format("parameter {} is in {} buckets; expected 1", i, seen[i]));
  for (const auto& [parameter, times] : seen)
    if (parameter < 0 || parameter >= parameters) findings.push_back(fmt::format("a bucket holds parameter {}; there are {}", parameter, parameters));
  for (const auto& role : plan.roles)
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      const auto uses = [&](TaskKind kind) {
        return std::count_if(role.tasks.begin(), role.tasks.end(), [&](const Task& task) {
          return task.kind == kind && (task.bucket == static_cast<int>(b) || (task.bucket == kNone && kind == TaskKind::update));
        });
      };
      if (uses(TaskKind::update) != 1) findings.push_back(fmt::format("{}: bucket {} has {} updates; expected 1", role.name, b, uses(TaskKind::update)));
    }
}

/// Runs the streams of all roles without time. A role stands for its workers: they do the same, so that each joins
/// every collective of it at the same place.
class Run {
 public:
  explicit Run(const Plan& plan) : plan_(plan), roles_(plan.roles.size()) {
    for (std::size_t r = 0; r < roles_.size(); ++r) {
      const auto& tasks = plan.roles[r].tasks;
      roles_[r].done.resize(tasks.size());
      for (std::size_t t = 0; t < tasks.size(); ++t)
        roles_[r].queues[static_cast<std::size_t>(tasks[t].stream)].push_back(static_cast<int>(t));
    }
  }

  void go(Findings& findings) {
    while (advance(findings)) {
    }
    for (std::size_t r = 0; r < roles_.size(); ++r)
      for (std::size_t s = 0; s < kStreams; ++s)
        if (const int task = head(r, s); task != kNone) {
          const auto& stuck = plan_.roles[r].tasks[static_cast<std::size_t>(task)];
          findings.push_back(fmt::format("deadlock: {} cannot start '{}' on its {} stream", plan_.roles[r].name, stuck.label,
                                         name(static_cast<Stream>(s))));
        }
  }

 private:
  struct State {
    std::array<std::vector<int>, kStreams> queues;
    std::array<std::size_t, kStreams> next{};
    std::vector<bool> done;
  };

  int head(std::size_t role, std::size_t stream) const {
    const auto& state = roles_[role];
    return state.next[stream] < state.queues[stream].size() ? state.queues[stream][state.next[stream]] : kNone;
  }

  const Task& task(std::size_t role, int number) const { return plan_.roles[role].tasks[static_cast<std::size_t>(number)]; }

  bool ready(std::size_t role, int number) const {
    const auto& wanted = task(role, number);
    for (const int other : wanted.after)
      if (!roles_[role].done[static_cast<std::size_t>(other)]) return false;
    if (wanted.waits_for == kNone) return true;
    // Backward raises its events while it runs: an event counts once that backward is done or may run. Of several, for
    // micro-batches, the last completes the gradients.
    const auto& tasks = plan_.roles[role].tasks;
    bool any = false;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (tasks[t].kind != TaskKind::backward) continue;
      if (!roles_[role].done[t]) return false;
      any = true;
    }
    return any;
  }

  void finish(std::size_t role, std::size_t stream) {
    roles_[role].done[static_cast<std::size_t>(head(role, stream))] = true;
    ++roles_[role].next[stream];
  }

  /// The stream at whose head this role has a ready task that `fits`, or kStreams.
  template <typename Fits>
  std::size_t stream_with(std::size_t role, Fits fits) const {
    for (std::size_t s = 0; s < kStreams; ++s)
      if (const int number = head(role, s); number != kNone && ready(role, number) && fits(task(role, number))) return s;
    return kStreams;
  }

  bool advance(Findings& findings) {
    bool moved = false;
    for (std::size_t r = 0; r < roles_.size(); ++r) {
      const auto local = [](const Task& t) {
        return t.kind != TaskKind::collective && t.kind != TaskKind::send && t.kind != TaskKind::receive;
      };
      for (auto s = stream_with(r, local); s != kStreams; s = stream_with(r, local)) {
        finish(r, s);
        moved = true;
      }
      const auto sends = stream_with(r, [](const Task& t) { return t.kind == TaskKind::send; });
      if (sends == kStreams) continue;
      const auto& send = task(r, head(r, sends));
      const auto peer = static_cast<std::size_t>(send.peer);
      const auto receives = stream_with(peer, [&](const Task& t) {
        return t.kind == TaskKind::receive && t.peer == static_cast<int>(r) && t.micro_batch == send.micro_batch;
      });
      if (receives == kStreams) continue;
      const auto& receive = task(peer, head(peer, receives));
      if (send.bytes != receive.bytes)
        findings.push_back(fmt::format("{} sends {} bytes as '{}', {} expects {} as '{}'", plan_.roles[r].name, send.bytes,
                                       send.label, plan_.roles[peer].name, receive.bytes, receive.label));
      finish(r, sends);
      finish(peer, receives);
      moved = true;
    }
    return join_collective(findings) || moved;
  }

  bool join_collective(Findings& findings) {
    std::vector<std::size_t> streams;
    for (std::size_t r = 0; r < roles_.size(); ++r) {
      streams.push_back(stream_with(r, [](const Task& t) { return t.kind == TaskKind::collective; }));
      if (streams.back() == kStreams) return false;
    }
    if (roles_.empty()) return false;
    const auto& first = task(0, head(0, streams[0]));
    for (std::size_t r = 1; r < roles_.size(); ++r) {
      const auto& other = task(r, head(r, streams[r]));
      if (other.bytes != first.bytes || other.bucket != first.bucket)
        findings.push_back(fmt::format("{} joins '{}' ({} bytes) where {} joins '{}' ({} bytes)", plan_.roles[0].name,
                                       first.label, first.bytes, plan_.roles[r].name, other.label, other.bytes));
    }
    for (std::size_t r = 0; r < roles_.size(); ++r) finish(r, streams[r]);
    return true;
  }

  const Plan& plan_;
  std::vector<State> roles_;
};

}  // namespace

std::vector<std::string> verify(const Plan& plan, int parameters, std::int64_t memory_limit) {
  Findings findings;
  check_workers(plan, findings);
  bool sound = true;
  for (const auto& role : plan.roles) sound = check_tasks(plan, role, findings) && sound;
  check_buckets(plan, parameters, findings);
  if (sound) Run(plan).go(findings);
  for (const auto& role : plan.roles)
    if (memory_limit > 0 && role.holds.total() > memory_limit)
      findings.push_back(fmt::format("{} holds {} bytes; the limit is {}", role.name, role.holds.total(), memory_limit));
  return findings;
}

}  // namespace ddl
