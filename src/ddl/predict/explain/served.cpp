#include "ddl/predict/explain/served.h"

#include <algorithm>
#include <limits>

#include "ddl/core/at.h"
#include "ddl/plan/meetings.h"

namespace ddl {
namespace {

/// Who waits for a turn is woken within this.
constexpr Nanoseconds kHandsOver = 50'000;

}  // namespace

Served::Served(const Plan& plan, const std::vector<TracedStep>& steps) : busy_(at(plan.serving.servers)) {
  for (const auto& step : steps)
    for (const auto& span : step.spans) {
      if (span.stream != Stream::server || span.meeting == 0 || span.worker < 0 || span.worker >= plan.serving.servers) continue;
      periods_[{span.worker, step.number, span.meeting}] = {span.begin, span.end};
      busy_[at(span.worker)].push_back({span.begin, span.end});
      if (span.cause != Cause::update) continue;
      auto& last = applied_[{span.worker, step.number}];
      last = std::max(last, span.end);
    }
  for (auto& each : busy_) std::sort(each.begin(), each.end(), [](const Period& a, const Period& b) { return a.begin < b.begin; });
}

std::optional<Period> Served::of(int server, std::int64_t step, std::uint32_t meeting) const {
  const auto found = periods_.find({server, step, meeting});
  return found == periods_.end() ? std::nullopt : std::optional(found->second);
}

Nanoseconds Served::busy(int server, Nanoseconds begin, Nanoseconds end) const {
  const auto& all = busy_[at(server)];
  // What it does one after the other ends in the order in which it begins.
  auto each = std::lower_bound(all.begin(), all.end(), begin, [](const Period& period, Nanoseconds time) { return period.end <= time; });
  Nanoseconds sum = 0;
  for (; each != all.end() && each->begin < end; ++each) sum += std::max<Nanoseconds>(0, std::min(each->end, end) - std::max(each->begin, begin));
  return sum;
}

bool Served::is_busy_until(int server, Nanoseconds time) const {
  const auto& all = busy_[at(server)];
  const auto after = std::lower_bound(all.begin(), all.end(), time, [](const Period& period, Nanoseconds begin) { return period.begin < begin; });
  return after != all.begin() && std::prev(after)->end >= time - kHandsOver;
}

std::optional<Nanoseconds> Served::applied(int server, std::int64_t step) const {
  const auto found = applied_.find({server, step});
  return found == applied_.end() ? std::nullopt : std::optional(found->second);
}

ServerCosts server_costs(const Plan& plan, const Served& served, int worker, std::int64_t step, const Trace& spans) {
  const auto& role = plan.role_of(worker);
  ServerCosts out{std::vector<double>(role.tasks.size(), std::numeric_limits<double>::quiet_NaN()), std::vector<bool>(role.tasks.size()), {}};
  std::vector<Nanoseconds> applied(at(plan.serving.servers));  // this worker's own push, by server
  for (const bool push : {true, false})
    for (const auto& span : spans) {
      if (span.stream != Stream::communication || span.task < 0 || at(span.task) >= role.tasks.size()) continue;
      const auto& task = role.tasks[at(span.task)];
      if (!is_transfer(task) || (task.kind == TaskKind::send) != push) continue;
      const int server = plan.roles[at(task.peer)].first;
      const auto turn = served.of(server, step, span.meeting);
      Nanoseconds took = span.end - span.begin;
      if (turn && push) {
        applied[at(server)] = turn->end;
        out.applications.emplace_back(server, seconds(turn->end - turn->begin));
        took = turn->begin - span.begin + std::max<Nanoseconds>(0, span.end - turn->end);
        // A server that is free begins with what has come; else it may have come at any time since it began with another's.
        if (const bool waited = served.is_busy_until(server, turn->begin); waited) {
          out.waited[at(span.task)] = true;
          took -= served.busy(server, span.begin, turn->begin);
        }
      } else if (turn) {
        // Before it there may be the worker's own gradient, and steps of others that it may not be further ahead of.
        auto begin = std::max(span.begin, applied[at(server)]);
        if (plan.serving.stale != kNone && step >= plan.serving.stale) {
          const auto others = served.applied(server, step - plan.serving.stale);
          if (!others) continue;  // before the trace: how long it waited for them is not known
          begin = std::max(begin, *others);
        }
        begin = std::min(begin, turn->begin);
        took = std::max(turn->end, span.end) - begin - served.busy(server, begin, turn->begin);
      }
      out.tasks[at(span.task)] = seconds(std::max<Nanoseconds>(0, took));
    }
  return out;
}

}  // namespace ddl
