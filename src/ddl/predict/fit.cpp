#include "ddl/predict/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "ddl/core/error.h"

namespace ddl {
namespace {

constexpr int kUnknowns = 6;
constexpr int kTurns = 6;
using Row = std::array<double, kUnknowns>;

Row row_of(const Counts& counts) { return {counts.rounds, counts.messages, counts.bytes, counts.handled, counts.reduced, counts.local}; }

/// Solves the normal equations of the chosen columns by elimination with pivots; false where they are singular.
bool solve(const std::vector<Row>& rows, const std::vector<int>& columns, Row& x) {
  const std::size_t n = columns.size();
  std::array<std::array<double, kUnknowns + 1>, kUnknowns> a{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) a[i][j] += row[static_cast<std::size_t>(columns[i])] * row[static_cast<std::size_t>(columns[j])];
      a[i][n] += row[static_cast<std::size_t>(columns[i])];  // the right-hand side is 1: relative errors
    }
  // Columns differ by many orders of magnitude: a round counts 1, a byte costs 1e-10 s.
  std::array<double, kUnknowns> scale{};
  for (std::size_t i = 0; i < n; ++i) {
    if (a[i][i] <= 0) return false;
    scale[i] = 1 / std::sqrt(a[i][i]);
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) a[i][j] *= scale[i] * scale[j];
    a[i][n] *= scale[i];
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t k = i + 1; k < n; ++k)
      if (std::abs(a[k][i]) > std::abs(a[pivot][i])) pivot = k;
    if (std::abs(a[pivot][i]) < 1e-9) return false;
    std::swap(a[i], a[pivot]);
    for (std::size_t k = 0; k < n; ++k) {
      if (k == i) continue;
      const double factor = a[k][i] / a[i][i];
      for (std::size_t j = i; j <= n; ++j) a[k][j] -= factor * a[i][j];
    }
  }
  x = {};
  for (std::size_t i = 0; i < n; ++i) x[static_cast<std::size_t>(columns[i])] = a[i][n] / a[i][i] * scale[i];
  return true;
}

double squared_error(const std::vector<Row>& rows, const Row& x) {
  double sum = 0;
  for (const auto& row : rows) {
    double value = -1;
    for (std::size_t i = 0; i < kUnknowns; ++i) value += row[i] * x[i];
    sum += value * value;
  }
  return sum;
}

/// `rows` are counts over seconds.
UnitCosts least_squares(const std::vector<Row>& rows) {
  Row best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned subset = 1; subset < 1U << kUnknowns; ++subset) {
    std::vector<int> columns;
    for (int i = 0; i < kUnknowns; ++i)
      if (subset & (1U << i)) columns.push_back(i);
    Row x;
    if (!solve(rows, columns, x) || *std::min_element(x.begin(), x.end()) < 0) continue;
    // A term more must earn its place.
    const double error = squared_error(rows, x) * (1 + 1e-6 * static_cast<double>(columns.size()));
    if (error < least) {
      least = error;
      best = x;
    }
  }
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
  std::size_t from = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const bool last = i + 1 == sizes.size();
    const auto middle = [&] { return std::sqrt(static_cast<double>(std::max<std::size_t>(1, sizes[i])) * static_cast<double>(sizes[i + 1])); };
    const std::size_t to = last ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(middle());
    std::vector<const FitSample*> inside;
    for (const auto& sample : samples)
      if (sample.bytes >= from && sample.bytes < to) inside.push_back(&sample);
    if (inside.empty()) continue;  // sizes next to each other
    result.cost.pieces.push_back({from, to, fit_piece(inside)});
    from = to;
  }
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
