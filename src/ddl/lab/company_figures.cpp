#include "ddl/lab/company_figures.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ddl/core/statistics.h"

namespace ddl {
namespace {

std::vector<double> logs_of(std::span<const double> times) {
  std::vector<double> logs;
  for (const double time : times) logs.push_back(std::log(std::max(time, 1e-12)));
  return logs;
}

}  // namespace

Json to_json(const CompanyTimes& times) {
  return {{"alone", times.alone}, {"together", times.together}, {"alone_core", times.alone_core}, {"together_core", times.together_core}, {"together_first", times.together_first}};
}

CompanyTimes company_times(const Json& document) {
  const auto part = [&](const char* name) { return document.at(name).get<std::vector<double>>(); };
  return {part("alone"), part("together"), part("alone_core"), part("together_core"), part("together_first")};
}

double slowdown_together(std::span<const CompanyTimes> workers) {
  const bool counted = !workers.front().alone_core.empty();
  std::vector<double> together;
  for (const auto& worker : workers) {
    const auto& times = counted ? worker.together_core : worker.together;
    together.insert(together.end(), times.begin(), times.end());
  }
  return median(together) / median(counted ? workers.front().alone_core : workers.front().alone);
}

double sigma_of_log(std::span<const double> times) {
  const auto logs = logs_of(times);
  const double middle = mean(logs);
  double squares = 0;
  for (const double each : logs) squares += (each - middle) * (each - middle);
  return times.size() < 2 ? 0 : std::sqrt(squares / static_cast<double>(times.size() - 1));
}

double correlation_of_logs(std::span<const double> a, std::span<const double> b) {
  const auto both = std::min(a.size(), b.size());
  return robust_correlation(logs_of(a.first(both)), logs_of(b.first(both)));
}

double correlation_of_workers(std::span<const CompanyTimes> workers) {
  double sum = 0;
  for (std::size_t rank = 1; rank < workers.size(); ++rank) sum += correlation_of_logs(workers[rank - 1].together, workers[rank].together);
  return workers.size() < 2 ? 0 : sum / static_cast<double>(workers.size() - 1);
}

std::optional<double> brief_share(std::span<const CompanyTimes> workers) {
  constexpr std::size_t kFewest = 24;
  double sum = 0;
  std::size_t steps = 0;
  for (const auto& worker : workers) {
    auto backward = worker.together;
    for (std::size_t i = 0; i < worker.together_first.size(); ++i) backward[i] -= worker.together_first[i];
    sum += robust_correlation(worker.together_first, backward);
    steps += worker.together_first.size();
  }
  if (steps < kFewest) return std::nullopt;
  return std::clamp(1 - sum / static_cast<double>(workers.size()), 0.0, 1.0);
}

}  // namespace ddl
