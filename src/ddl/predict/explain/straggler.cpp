#include "ddl/predict/explain/straggler.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "ddl/core/at.h"
#include "ddl/core/statistics.h"

namespace ddl {
namespace {

constexpr double kErrors = 3;
constexpr double kShare = 0.02;
constexpr std::size_t kFewestSteps = 3;

/// A server's work is beside its worker's. Batches count where peers load them, too: of stages the first alone does.
bool is_busy(const Role& role, const Task& task) {
  const auto work = work_of(task);
  return task.stream != Stream::server && (work == Work::compute || work == Work::other || (work == Work::load && role.count > 1));
}

std::vector<int> peers_of(const Plan& plan, int worker) {
  const auto& role = plan.role_of(worker);
  const bool alone = role.count == 1;
  std::vector<int> out;
  for (int other = alone ? 0 : role.first; other < (alone ? plan.workers() : role.first + role.count); ++other)
    if (other != worker) out.push_back(other);
  return out;
}

/// By what peers can be compared with: the task, where they have the same ones, or its kind.
using Parts = std::map<std::string, double>;

Parts parts_of(const Plan& plan, const StepDraw& step, int worker, bool by_kind) {
  const auto& role = plan.role_of(worker);
  Parts out;
  for (std::size_t t = 0; t < role.tasks.size(); ++t)
    if (const auto& task = role.tasks[t]; is_busy(role, task) && !std::isnan(step.tasks[at(worker)][t])) out[by_kind ? std::string(name(task.kind)) : task.label] += step.tasks[at(worker)][t];
  return out;
}

/// By how much longer it takes for a part than the median of its peers.
double later(const Parts& own, const std::vector<Parts>& peers, const std::string& part) {
  std::vector<double> others;
  for (const auto& peer : peers)
    if (const auto found = peer.find(part); found != peer.end()) others.push_back(found->second);
  const auto found = own.find(part);
  return found == own.end() ? 0 : found->second - (others.empty() ? 0 : median(others));
}

double sum(const Parts& parts) {
  double all = 0;
  for (const auto& [part, seconds] : parts) all += seconds;
  return all;
}

}  // namespace

Straggler find_straggler(const Plan& plan, const StepDraws& draws) {
  Straggler out;
  out.steps = draws.steps.size();
  bool found = false;
  int latest = kNone;
  for (int worker = 0; worker < plan.workers(); ++worker) {
    const auto peers = peers_of(plan, worker);
    if (peers.empty()) continue;
    std::vector<double> late;
    for (const auto& step : draws.steps) {
      std::vector<double> others;
      for (const int peer : peers) others.push_back(sum(parts_of(plan, step, peer, true)));
      late.push_back(sum(parts_of(plan, step, worker, true)) - median(others));
    }
    const double by = mean(late);
    double squares = 0;
    for (const double each : late) squares += (each - by) * (each - by);
    const auto n = static_cast<double>(late.size());
    const double error = n > 1 ? std::sqrt(squares / (n - 1) / n) : 0;
    const bool stands_out = late.size() >= kFewestSteps && by > kErrors * error && by > kShare * draws.seconds();
    // Who stands out goes first: who was late by chance once may be later than who is late in every step.
    if (latest != kNone && std::pair(stands_out, by) <= std::pair(found, out.late)) continue;
    latest = worker;
    found = stands_out;
    out.late = by;
    out.error = error;
  }
  if (!found) return out;
  out.worker = latest;
  const bool by_kind = plan.role_of(latest).count == 1;
  Parts total;
  for (const auto& step : draws.steps) {
    const auto own = parts_of(plan, step, latest, by_kind);
    std::vector<Parts> peers;
    for (const int peer : peers_of(plan, latest)) peers.push_back(parts_of(plan, step, peer, by_kind));
    for (const auto& [part, seconds] : own) total[part] += later(own, peers, part) / static_cast<double>(draws.steps.size());
  }
  for (const auto& [part, seconds] : total)
    if (out.task.empty() || seconds > out.task_late) {
      out.task = part;
      out.task_late = seconds;
    }
  return out;
}

}  // namespace ddl
