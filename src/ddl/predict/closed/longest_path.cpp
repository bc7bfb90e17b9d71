#include "ddl/predict/closed/longest_path.h"

#include <algorithm>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/plan/bucket_events.h"
#include "ddl/plan/meetings.h"
#include "ddl/plan/occasion.h"
#include "ddl/predict/step/simulate_step.h"

namespace ddl {
namespace {

std::size_t at(int number) { return static_cast<std::size_t>(number); }

}  // namespace

LongestPath::LongestPath(const Plan& plan, const StepCosts& costs) : steps_(steps_to_simulate(plan).steps) {
  const auto numbers = meetings(plan).numbers;
  int most = kNone;
  for (const auto& of_role : numbers)
    for (const int number : of_role) most = std::max(most, number);
  // All who take part in a message or a collective wait for one and the same.
  seconds_.resize(at(most + 1));
  computed_by_.resize(seconds_.size(), kNone);
  for (int r = 0; r < static_cast<int>(plan.roles.size()); ++r) add_role(plan, costs, r, numbers[at(r)]);
  sort();
}

void LongestPath::add_role(const Plan& plan, const StepCosts& costs, int number, const std::vector<int>& meetings) {
  const auto& role = plan.roles[at(number)];
  const auto base = seconds_.size(), end = base + role.tasks.size();
  seconds_.resize(end + 1);
  computed_by_.resize(end + 1, kNone);
  step_ends_.push_back(end);
  seconds_[end] = costs.harness[at(number)];
  computed_by_[end] = number;
  const auto over = [&](int task) { return meetings[at(task)] == kNone ? base + at(task) : at(meetings[at(task)]); };
  const auto wait = [&](std::size_t from, std::size_t to, double share = 1) { found_.push_back({from, to, share}); };

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
    for (std::size_t k = 1; k < queue.size(); ++k) wait(over(queue[k - 1]), base + at(queue[k]));
    const bool computes = q == 0;
    if (computes) wait(over(queue.back()), end);
    from_before_.emplace_back(computes ? end : over(queue.back()), base + at(queue.front()));
  }

  const BucketEvents events(plan, role);
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    for (const int other : task.after) wait(over(other), base + t);
    if (task.waits_for != kNone) {
      const int backward = events.raised_by(task);
      if (backward == kNone) throw Error(Code::invalid_argument, fmt::format("[predict] {}: nothing raises the event that '{}' waits for", role.name, task.label));
      const bool of_stage = role.buckets[at(task.waits_for)].stage != kNone;
      wait(base + at(backward), base + t, of_stage ? std::clamp(costs.ready[at(number)][at(task.waits_for)], 0.0, 1.0) : 1);
    }
    if (!communicates(task)) continue;
    wait(over(static_cast<int>(t)), end);
    if (task.after.empty() && task.waits_for == kNone) from_before_.emplace_back(end, base + t);
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
  std::vector<double> begins(nodes), before(nodes);
  double first = 0, last = 0;
  for (int step = 0; step < steps_; ++step) {
    std::fill(begins.begin(), begins.end(), 0);
    if (step > 0)
      for (const auto& [from, to] : from_before_) begins[to] = std::max(begins[to], before[from] + seconds[from]);
    for (std::size_t p = 0; p < nodes; ++p) {
      auto& begin = begins[order_[p]];
      for (auto w = first_wait_[p]; w < first_wait_[p + 1]; ++w) begin = std::max(begin, begins[waits_[w].node] + waits_[w].share * seconds[waits_[w].node]);
    }
    last = 0;
    for (const auto end : step_ends_) last = std::max(last, begins[end] + seconds[end]);
    if (step == 0) first = last;
    std::swap(begins, before);
  }
  return steps_ > 1 ? (last - first) / (steps_ - 1) : last;
}

}  // namespace ddl
