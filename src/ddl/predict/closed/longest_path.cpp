#include "ddl/predict/closed/longest_path.h"

#include <algorithm>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/error.h"
#include "ddl/plan/bucket_events.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/occasion.h"

namespace ddl {
namespace {

/// Of each meeting of an asynchronous plan how far ahead its receiver is; a collective's members are all in one step.
std::vector<int> ahead_of_receivers(const Plan& plan, const std::vector<std::vector<int>>& numbers, std::size_t meetings) {
  std::vector<int> ahead(meetings);
  for (std::size_t r = 0; r < numbers.size(); ++r)
    for (std::size_t t = 0; t < numbers[r].size(); ++t)
      if (const auto& task = plan.roles[r].tasks[t]; numbers[r][t] != kNone && task.kind != TaskKind::send) ahead[at(numbers[r][t])] = task.ahead;
  return ahead;
}

}  // namespace

LongestPath::LongestPath(const Plan& plan, const StepCosts& costs) : range_(steps_to_simulate(plan)), asynchronous_(plan.asynchronous()) {
  const auto numbers = meetings(plan).numbers;
  int most = kNone;
  for (const auto& of_role : numbers)
    for (const int number : of_role) most = std::max(most, number);
  // All who take part in a message or a collective wait for one and the same.
  seconds_.resize(at(most + 1));
  computed_by_.resize(seconds_.size(), kNone);
  const auto ahead = ahead_of_receivers(plan, numbers, seconds_.size());
  for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r) add_role(plan, costs, r, numbers[at(r)], ahead);
  sort();
}

void LongestPath::wait_for_earlier(std::size_t from, std::size_t to, int steps) {
  if (steps < 0) throw Error(Code::invalid_argument, "[predict] a message that is received further ahead than it is sent");
  if (steps == 0) wait(from, to);
  else from_before_.push_back({from, to, steps});
}

void LongestPath::add_role(const Plan& plan, const StepCosts& costs, int number, const std::vector<int>& meetings, const std::vector<int>& ahead) {
  const auto& role = plan.roles[at(number)];
  const auto base = seconds_.size(), end = base + role.tasks.size();
  seconds_.resize(end + 1);
  computed_by_.resize(end + 1, kNone);
  step_ends_.push_back(end);
  seconds_[end] = costs.harness[at(number)].seconds;
  computed_by_[end] = number;
  const auto over = [&](int task) { return meetings[at(task)] == kNone ? base + at(task) : at(meetings[at(task)]); };
  // What is sent is counted in the step in which it is received: so many after the sender's.
  const auto later = [&](int task) { return meetings[at(task)] == kNone ? 0 : role.tasks[at(task)].ahead - ahead[at(meetings[at(task)])]; };
  const auto wait_over = [&](int other, int task) { wait_for_earlier(over(other), base + at(task), later(task) - later(other)); };

  std::vector<std::vector<int>> queues(1);
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    const double seconds = costs.tasks[at(number)][t].seconds * share_of_steps(task);
    if (const int meeting = meetings[t]; meeting != kNone) {
      auto& longest = seconds_[at(meeting)];
      longest = std::max(longest, seconds);
      wait(base + t, at(meeting));
    } else if (!communicates(task)) {
      seconds_[base + t] = seconds;
      computed_by_[base + t] = number;
    }
    if (!communicates(task)) queues.front().push_back(static_cast<int>(t));
  }
  for (auto& [key, tasks] : communication_queues(role)) queues.push_back(tasks);
  for (std::size_t q = 0; q < queues.size(); ++q) {
    const auto& queue = queues[q];
    for (std::size_t k = 1; k < queue.size(); ++k) wait_over(queue[k - 1], queue[k]);
    const bool computes = q == 0;
    if (computes) wait(over(queue.back()), end);
    if (computes) from_before_.push_back({end, base + at(queue.front()), 1});
    else wait_for_earlier(over(queue.back()), base + at(queue.front()), 1 + later(queue.front()) - later(queue.back()));
  }

  const BucketEvents events(plan, role);
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    for (const int other : task.after) wait_over(other, static_cast<int>(t));
    if (task.waits_for != kNone) {
      const int backward = events.raised_by(task);
      if (backward == kNone) throw Error(Code::invalid_argument, fmt::format("[predict] {}: nothing raises the event that '{}' waits for", role.name, task.label));
      const bool of_stage = role.buckets[at(task.waits_for)].stage != kNone;
      wait(base + at(backward), base + t, of_stage ? std::clamp(costs.ready[at(number)][at(task.waits_for)], 0.0, 1.0) : 1);
    }
    // A worker's step ends when all is over that it takes part in, unless steps go on into each other.
    if (!communicates(task) || asynchronous_) continue;
    wait(over(static_cast<int>(t)), end);
    if (task.after.empty() && task.waits_for == kNone) from_before_.push_back({end, base + t, 1});
  }
}

/// Kahn 1962.
void LongestPath::sort() {
  const auto nodes = seconds_.size();
  std::vector<int> open(nodes);
  std::vector<std::size_t> first(nodes + 1), next(found_.size());
  for (const auto& each : found_) {
    ++first[each.from + 1];
    ++open[each.to];
  }
  for (std::size_t node = 0; node < nodes; ++node) first[node + 1] += first[node];
  auto place = first;
  for (const auto& each : found_) next[place[each.from]++] = each.to;
  for (std::size_t node = 0; node < nodes; ++node)
    if (open[node] == 0) order_.push_back(node);
  for (std::size_t done = 0; done < order_.size(); ++done)
    for (auto e = first[order_[done]]; e < first[order_[done] + 1]; ++e)
      if (--open[next[e]] == 0) order_.push_back(next[e]);
  if (order_.size() < nodes) throw Error(Code::invalid_argument, "[predict] the plan comes to a stop; verify() says where");
  std::vector<std::size_t> place_of(nodes);
  for (std::size_t p = 0; p < nodes; ++p) place_of[order_[p]] = p;
  first_wait_.resize(nodes + 1);
  for (const auto& each : found_) ++first_wait_[place_of[each.to] + 1];
  for (std::size_t p = 0; p < nodes; ++p) first_wait_[p + 1] += first_wait_[p];
  waits_.resize(found_.size());
  place = first_wait_;
  for (const auto& each : found_) waits_[place[place_of[each.to]]++] = {each.from, each.share};
  found_ = {};
}

double LongestPath::step_seconds(const std::vector<double>& times) {
  const auto nodes = seconds_.size();
  auto seconds = seconds_;
  for (std::size_t node = 0; node < nodes; ++node)
    if (computed_by_[node] != kNone) seconds[node] *= times[at(computed_by_[node])];
  int furthest = 1;
  for (const auto& each : from_before_) furthest = std::max(furthest, each.steps);
  std::vector<std::vector<double>> begins(at(furthest + 1), std::vector<double>(nodes));  // of this step and those before it, in turns
  double first = 0, last = 0;
  const int from = range_.lead - 1, until = range_.steps - 1 - range_.tail;
  for (int step = 0; step <= until; ++step) {
    auto& now = begins[at(step % (furthest + 1))];
    std::fill(now.begin(), now.end(), 0);
    for (const auto& each : from_before_)
      if (each.steps <= step) now[each.to] = std::max(now[each.to], begins[at((step - each.steps) % (furthest + 1))][each.from] + seconds[each.from]);
    for (std::size_t p = 0; p < nodes; ++p) {
      auto& begin = now[order_[p]];
      for (auto w = first_wait_[p]; w < first_wait_[p + 1]; ++w) begin = std::max(begin, now[waits_[w].node] + waits_[w].share * seconds[waits_[w].node]);
    }
    last = 0;
    for (const auto end : step_ends_) last = std::max(last, now[end] + seconds[end]);
    if (step == from) first = last;
  }
  return until > from ? (last - first) / (until - from) : last;
}

}  // namespace ddl
