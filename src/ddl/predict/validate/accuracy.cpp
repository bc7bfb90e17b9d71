#include "ddl/predict/validate/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace ddl {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// What it takes, whatever the unit.
double time_of(double value, bool rate) { return rate ? 1 / value : value; }

double mean_regret(const std::vector<Predicted>& all) {
  std::map<std::string, std::vector<const Predicted*>> problems;
  for (const auto& each : all)
    if (!each.choice_of.empty()) problems[each.choice_of].push_back(&each);
  double sum = 0;
  int choices = 0;
  for (const auto& [problem, ways] : problems) {
    if (ways.size() < 2) continue;
    const auto chosen = *std::min_element(ways.begin(), ways.end(), [](const auto* a, const auto* b) { return time_of(a->value, a->rate) < time_of(b->value, b->rate); });
    double best = std::numeric_limits<double>::infinity();
    for (const auto* way : ways) best = std::min(best, time_of(way->measured, way->rate));
    sum += 100 * (time_of(chosen->measured, chosen->rate) / best - 1);
    ++choices;
  }
  return choices > 0 ? sum / choices : kNone;
}

}  // namespace

double kendall_tau(std::span<const double> a, std::span<const double> b) {
  double score = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = i + 1; j < a.size(); ++j) {
      const int x = (a[i] > a[j]) - (a[i] < a[j]), y = (b[i] > b[j]) - (b[i] < b[j]);
      score += x * y;
      of_a += x * x;
      of_b += y * y;
    }
  return of_a > 0 && of_b > 0 ? score / std::sqrt(of_a * of_b) : kNone;
}

Accuracy accuracy(const std::vector<Predicted>& all) {
  Accuracy out;
  out.rows = static_cast<int>(all.size());
  if (all.empty()) return {0, kNone, kNone, kNone, kNone, kNone, kNone};
  std::vector<double> measured, predicted;
  for (const auto& each : all) {
    out.mape += std::abs(each.error_pct()) / out.rows;
    out.max = std::max(out.max, std::abs(each.error_pct()));
    out.bias += each.error_pct() / out.rows;
    out.coverage += (each.measured >= each.low && each.measured <= each.high ? 1.0 : 0.0) / out.rows;
    measured.push_back(time_of(each.measured, each.rate));
    predicted.push_back(time_of(each.value, each.rate));
  }
  out.tau = kendall_tau(measured, predicted);
  out.regret = mean_regret(all);
  return out;
}

}  // namespace ddl
