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

/// Costs between those of two sizes: a share of the second's.
UnitCosts mixed(const UnitCosts& a, const UnitCosts& b, double share) {
  const auto mix = [&](double x, double y) { return (1 - share) * x + share * y; };
  return {mix(a.alpha, b.alpha), mix(a.overhead, b.overhead), mix(a.beta, b.beta), mix(a.copy, b.copy), mix(a.gamma, b.gamma), mix(a.local, b.local)};
}

/// Each size's own costs, from all of its samples, and between two sizes those of both, by how near each is along the logarithm, in pieces of a factor of about root two; below the first and above the last theirs.
WireCost by_size(const std::vector<FitSample>& samples, const std::vector<std::size_t>& sizes) {
  std::vector<std::pair<std::size_t, UnitCosts>> known;
  for (const auto size : sizes) {
    std::vector<const FitSample*> of;
    for (const auto& sample : samples)
      if (sample.bytes == size) of.push_back(&sample);
    known.emplace_back(size, fit_piece(of));
  }
  WireCost cost;
  const auto add = [&](std::size_t to, const UnitCosts& costs) {
    const auto from = cost.pieces.empty() ? 0 : cost.pieces.back().to;
    if (to > from) cost.pieces.push_back({from, to, costs});
  };
  for (std::size_t i = 0; i + 1 < known.size(); ++i) {
    const auto low = static_cast<double>(std::max<std::size_t>(1, known[i].first)), ratio = static_cast<double>(known[i + 1].first) / low;
    const int parts = std::max(1, static_cast<int>(std::ceil(2 * std::log2(ratio))));
    for (int part = 0; part < parts; ++part) add(static_cast<std::size_t>(low * std::pow(ratio, (part + 0.5) / parts)), mixed(known[i].second, known[i + 1].second, static_cast<double>(part) / parts));
  }
  add(std::numeric_limits<std::size_t>::max(), known.back().second);
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
