#include "ddl/plan/run_queues.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/plan/bucket_events.h"

namespace ddl {
namespace {

using Numbers = std::vector<std::vector<int>>;

/// Who waits for whom, as a graph that is run from its beginnings on (Kahn 1962).
class Run {
 public:
  Run(const Plan& plan, const Meetings& meetings) : plan_(plan), asynchronous_(meetings.asynchronous) {
    for (const auto& role : plan.roles) {
      offset_.push_back(tasks_);
      tasks_ += role.tasks.size();
    }
    join_meetings(meetings.numbers);
    open_.resize(tasks_);
    edges_.reserve(2 * tasks_);
    for (std::size_t r = 0; r < plan.roles.size(); ++r) queues_.push_back(queues_of(plan.roles[r], meetings.queues[r]));
    for (std::size_t r = 0; r < plan.roles.size(); ++r) connect(r, meetings.numbers[r]);
    sort_edges();
  }

  /// Whether some task waits for one of a later step: go() says nothing then.
  bool goes_back() const { return goes_back_; }

  std::vector<std::string> go() {
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
    std::vector<std::string> findings;
    for (std::size_t r = 0; r < plan_.roles.size(); ++r)
      for (const auto& queue : queues_[r])
        for (const int t : queue)
          if (!done[node_[offset_[r] + at(t)]]) {
            const auto& task = plan_.roles[r].tasks[at(t)];
            findings.push_back(fmt::format("deadlock: {} cannot start '{}' on its {} stream", plan_.roles[r].name, task.label, name(task.stream)));
            break;
          }
    return findings;
  }

 private:
  /// A number of a task among all: of half the memory, which is what takes the time.
  using Node = std::uint32_t;

  static std::vector<std::vector<int>> queues_of(const Role& role, const Queues& communication) {
    std::vector<std::vector<int>> all(2);  // computation, and what a server does of that
    for (std::size_t t = 0; t < role.tasks.size(); ++t)
      if (!communicates(role.tasks[t])) all[role.tasks[t].stream == Stream::server ? 1 : 0].push_back(static_cast<int>(t));
    for (const auto& [key, tasks] : communication) all.push_back(tasks);
    return all;
  }

  /// Gives all tasks of a meeting one node.
  void join_meetings(const Numbers& numbers) {
    node_.resize(tasks_);
    std::iota(node_.begin(), node_.end(), Node{0});
    std::vector<Node> first;  // by meeting
    std::vector<int> ahead;
    const auto none = static_cast<Node>(tasks_);
    const auto of_meetings = [&](auto visit) {
      for (std::size_t r = 0; r < numbers.size(); ++r)
        for (std::size_t t = 0; t < numbers[r].size(); ++t)
          if (numbers[r][t] != kNone) visit(at(numbers[r][t]), plan_.roles[r].tasks[t], offset_[r] + t);
    };
    of_meetings([&](std::size_t meeting, const Task& task, std::size_t n) {
      if (first.size() <= meeting) first.resize(meeting + 1, none);
      const bool is_first = first[meeting] == none;
      if (is_first) first[meeting] = static_cast<Node>(n);
      node_[n] = first[meeting];
      if (!asynchronous_) return;
      if (ahead.size() <= meeting) ahead.resize(meeting + 1);
      if (is_first || task.kind == TaskKind::receive) ahead[meeting] = task.ahead;
    });
    if (!asynchronous_) return;
    later_.resize(tasks_);
    of_meetings([&](std::size_t meeting, const Task& task, std::size_t n) { later_[n] = task.ahead - ahead[meeting]; });
  }

  /// `to` of so many steps later waits for `from`.
  void edge(std::size_t from, std::size_t to, int steps = 0) {
    if (asynchronous_) steps += later_[to] - later_[from];
    goes_back_ |= steps < 0;
    if (steps != 0) return;
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
    std::vector<int> before(role.tasks.size(), kNone);  // in the task's queue
    for (const auto& queue : queues_[r]) {
      for (std::size_t k = 1; k < queue.size(); ++k) {
        before[at(queue[k])] = queue[k - 1];
        edge(base + at(queue[k - 1]), base + at(queue[k]));
      }
      if (asynchronous_ && !queue.empty()) edge(base + at(queue.back()), base + at(queue.front()), 1);
    }
    // Backward raises its events while it runs: one counts once the last backward of its stage may have run. A role without reductions raises none.
    std::optional<BucketEvents> events;
    for (std::size_t t = 0; t < role.tasks.size(); ++t) {
      const auto& task = role.tasks[t];
      for (const int other : task.after)
        if (other != before[t]) edge(base + at(other), base + t);
      if (task.waits_for != kNone) {
        if (!events) events.emplace(plan_, role);
        if (const int backward = events->raised_by(task); backward == kNone)
          ++open_[node_[base + t]];  // never raised
        else
          edge(base + at(backward), base + t);
      }
      const bool alone = numbers[t] == kNone;
      if (communicates(task) && alone) ++open_[node_[base + t]];  // nobody meets it
    }
  }

  const Plan& plan_;
  bool asynchronous_;
  bool goes_back_ = false;
  std::size_t tasks_ = 0;
  std::vector<std::size_t> offset_;             ///< of each role's first task among all
  std::vector<Node> node_;                      ///< that stands for the task
  std::vector<int> later_;                      ///< steps from that of the task's role to that in which its event is counted; of asynchronous plans
  std::vector<int> open_;                       ///< by node: what must come before
  std::vector<std::vector<std::vector<int>>> queues_;         ///< by role
  std::vector<std::pair<Node, Node>> edges_;                  ///< between nodes, as they were found
  std::vector<std::size_t> first_edge_;                       ///< by node
  std::vector<Node> next_;                                    ///< where they lead
};

}  // namespace

std::vector<std::string> run_queues(const Plan& plan, const Meetings& meetings) {
  Run run(plan, meetings);
  if (!run.goes_back()) return run.go();
  int deepest = 0;
  for (const auto& role : plan.roles) deepest = std::max(deepest, depth(role));
  const auto unrolled = unroll(plan, 2 * deepest + 1);
  return run_queues(unrolled, ddl::meetings(unrolled));
}

}  // namespace ddl
