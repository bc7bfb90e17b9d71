#include "ddl/predict/validate/accuracy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace ddl {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// What it takes, whatever the unit: of rates alone a sample, of a table that has steps, too, a step.
struct Times {
  bool steps = false;
  double measured(const Predicted& each) const { return of(each.measured, each); }
  double predicted(const Predicted& each) const { return of(each.value, each); }

 private:
  double of(double value, const Predicted& each) const { return each.rate ? (steps ? each.batch : 1) / value : value; }
};

double mean_regret(const std::vector<Predicted>& all, const Times& times) {
  std::map<std::string, std::vector<const Predicted*>> problems;
  for (const auto& each : all)
    if (!each.choice_of.empty()) problems[each.choice_of].push_back(&each);
  double sum = 0;
  int choices = 0;
  for (const auto& [problem, ways] : problems) {
    if (ways.size() < 2) continue;
    const auto chosen = *std::min_element(ways.begin(), ways.end(), [&](const auto* a, const auto* b) { return times.predicted(*a) < times.predicted(*b); });
    double best = std::numeric_limits<double>::infinity();
    for (const auto* way : ways) best = std::min(best, times.measured(*way));
    sum += 100 * (times.measured(*chosen) / best - 1);
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
  if (all.empty()) return {0, kNone, kNone, kNone, kNone, kNone, kNone, kNone};
  std::vector<double> measured, predicted;
  const Times times{std::any_of(all.begin(), all.end(), [](const Predicted& each) { return !each.rate; })};
  for (const auto& each : all) {
    out.mape += std::abs(each.error_pct()) / out.rows;
    out.max = std::max(out.max, std::abs(each.error_pct()));
    out.bias += each.error_pct() / out.rows;
    out.coverage += (each.measured >= each.low && each.measured <= each.high ? 1.0 : 0.0) / out.rows;
    out.wide += std::log(each.high / each.low) / (2 * out.rows);
    measured.push_back(times.measured(each));
    predicted.push_back(times.predicted(each));
  }
  out.wide = std::exp(out.wide);
  out.tau = kendall_tau(measured, predicted);
  out.regret = mean_regret(all, times);
  return out;
}

}  // namespace ddl
