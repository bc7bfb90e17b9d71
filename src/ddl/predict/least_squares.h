#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace ddl {

/// Least squares of relative errors: x with the least sum of (row . x - 1)^2, a row being the terms of a model over what was measured. `weights`, where there are any, say how often each row
/// counts.
template <std::size_t N>
using FitRow = std::array<double, N>;

/// Solves the normal equations of the chosen columns by elimination with pivots; false where they are singular.
template <std::size_t N>
bool solve_least_squares(const std::vector<FitRow<N>>& rows, const std::vector<double>& weights, const std::vector<std::size_t>& columns, FitRow<N>& x) {
  const std::size_t n = columns.size();
  std::array<std::array<double, N + 1>, N> a{};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto& row = rows[r];
    const double counts = weights.empty() ? 1 : weights[r];
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) a[i][j] += counts * row[columns[i]] * row[columns[j]];
      a[i][n] += counts * row[columns[i]];  // the right-hand side is 1: relative errors
    }
  }
  // Columns differ by many orders of magnitude: a round counts 1, a byte costs 1e-10 s.
  std::array<double, N> scale{};
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
  for (std::size_t i = 0; i < n; ++i) x[columns[i]] = a[i][n] / a[i][i] * scale[i];
  return true;
}

template <std::size_t N>
double squared_relative_error(const std::vector<FitRow<N>>& rows, const std::vector<double>& weights, const FitRow<N>& x) {
  double sum = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    double value = -1;
    for (std::size_t i = 0; i < N; ++i) value += rows[r][i] * x[i];
    sum += (weights.empty() ? 1 : weights[r]) * value * value;
  }
  return sum;
}

/// No unknown below 0 (Lawson & Hanson 1974; with few unknowns every subset is tried).
template <std::size_t N>
FitRow<N> non_negative_least_squares(const std::vector<FitRow<N>>& rows, const std::vector<double>& weights = {}) {
  FitRow<N> best{};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned subset = 1; subset < 1U << N; ++subset) {
    std::vector<std::size_t> columns;
    for (std::size_t i = 0; i < N; ++i)
      if (subset & (1U << i)) columns.push_back(i);
    FitRow<N> x;
    if (!solve_least_squares(rows, weights, columns, x) || *std::min_element(x.begin(), x.end()) < 0) continue;
    // A term more must earn its place.
    const double error = squared_relative_error(rows, weights, x) * (1 + 1e-6 * static_cast<double>(columns.size()));
    if (error < least) {
      least = error;
      best = x;
    }
  }
  return best;
}

}  // namespace ddl
