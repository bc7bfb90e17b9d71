#include "ddl/predict/fit.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "ddl/core/error.h"
#include "ddl/predict/fit_curve.h"
#include "ddl/predict/least_squares.h"

namespace ddl {
namespace {

constexpr int kUnknowns = 6;
constexpr int kTurns = 6;
using Row = std::array<double, kUnknowns>;

Row row_of(const Counts& counts) { return {counts.rounds, counts.messages, counts.bytes, counts.handled, counts.reduced, counts.local}; }

/// `rows` are counts over seconds.
UnitCosts least_squares(const std::vector<Row>& rows) {
  const auto best = non_negative_least_squares(rows);
  return {best[0], best[1], best[2], best[3], best[4], best[5]};
}

UnitCosts fit_piece(const std::vector<const FitSample*>& samples) {
  // Something to begin with: half for rounds, half for bytes.
  UnitCosts costs;
  for (const auto* sample : samples) {
    costs.alpha = std::max(costs.alpha, sample->seconds / 4);
    costs.beta = std::max(costs.beta, sample->seconds / 4 / static_cast<double>(std::max<std::size_t>(1, sample->bytes)));
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    std::vector<Row> rows;
    for (const auto* sample : samples) {
      auto row = row_of(price(*sample, costs).counts);
      for (auto& value : row) value /= sample->seconds;
      rows.push_back(row);
    }
    costs = least_squares(rows);
  }
  return costs;
}

/// What each size took, where all of its samples ask for the same; none where any size has samples that differ, which tell unit costs apart.
std::vector<CurveSample> one_curve(const std::vector<FitSample>& samples) {
  struct Sum {
    Counts counts = {};
    double once = 0, twice = 0;  ///< of 1 / s
  };
  std::map<std::size_t, Sum> sizes;
  for (const auto& sample : samples) {
    const auto counts = price(sample, {1e-6, 0, 1e-9}).counts;
    auto& of = sizes.try_emplace(sample.bytes, Sum{counts}).first->second;
    if (!(of.counts == counts) || sample.bytes == 0) return {};
    of.once += 1 / sample.seconds;
    of.twice += 1 / (sample.seconds * sample.seconds);
  }
  std::vector<CurveSample> curve;
  // The least relative squares of one constant.
  for (const auto& [bytes, of] : sizes) curve.push_back({bytes, of.once / of.twice, of.counts});
  return curve;
}

WireCost by_size(const std::vector<FitSample>& samples, const std::vector<std::size_t>& sizes) {
  WireCost cost;
  std::size_t from = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool last = i + 1 == sizes.size();
    const auto middle = [&] { return std::sqrt(static_cast<double>(std::max<std::size_t>(1, sizes[i])) * static_cast<double>(sizes[i + 1])); };
    const std::size_t to = last ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(middle());
    std::vector<const FitSample*> inside;
    for (const auto& sample : samples)
      if (sample.bytes >= from && sample.bytes < to) inside.push_back(&sample);
    if (inside.empty()) continue;  // sizes next to each other
    cost.pieces.push_back({from, to, fit_piece(inside)});
    from = to;
  }
  return cost;
}

}  // namespace

Price price(const FitSample& sample, const UnitCosts& costs) {
  if (sample.group) return price(*sample.group, costs);
  return {costs.seconds(sample.counts), sample.counts};
}

Fit fit(const std::vector<FitSample>& samples) {
  if (samples.empty()) throw Error(Code::invalid_argument, "[fit] no samples");
  std::set<std::size_t> distinct;
  for (const auto& sample : samples) {
    if (!(sample.seconds > 0)) throw Error(Code::invalid_argument, fmt::format("[fit] a time; got {} s, expected more than 0", sample.seconds));
    distinct.insert(sample.bytes);
  }
  const std::vector<std::size_t> sizes(distinct.begin(), distinct.end());
  Fit result;
  const auto curve = one_curve(samples);
  result.cost = curve.empty() ? by_size(samples, sizes) : fit_curve(curve);
  for (const auto& sample : samples) {
    result.seconds.push_back(price(sample, result.cost.at(sample.bytes)).seconds);
    result.error += std::abs(result.seconds.back() - sample.seconds) / sample.seconds / static_cast<double>(samples.size());
  }
  return result;
}

double held_out_error(const std::vector<FitSample>& samples) {
  double sum = 0;
  int judged = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    std::vector<FitSample> others;
    for (std::size_t k = 0; k < samples.size(); ++k)
      if (k != i && samples[k].bytes == samples[i].bytes) others.push_back(samples[k]);
    if (others.empty()) continue;
    sum += std::abs(price(samples[i], fit(others).cost.at(samples[i].bytes)).seconds / samples[i].seconds - 1);
    ++judged;
  }
  return judged == 0 ? -1 : sum / judged;
}

}  // namespace ddl
