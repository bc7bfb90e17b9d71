#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ddl {

// Loops that compilers turn into vectors, with the same bits on every machine.

/// term(0) + term(1) + …, in eight sums, since one alone would wait for each addition, and in an order that n alone
/// decides.
template <typename Term>
double sum_of(std::size_t n, const Term term) {
  double sums[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t k = 0; k < 8; ++k) sums[k] += term(i + k);
  for (std::size_t k = 0; i < n; ++i, ++k) sums[k] += term(i);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

template <typename T>
double dot(const T* a, const T* b, std::size_t n) {
  return sum_of(n, [a, b](std::size_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); });
}

/// An integer for |value|, in the order of magnitudes; that of a NaN is above infinity's.
inline std::int32_t magnitude(float value) { return std::bit_cast<std::int32_t>(value) & std::numeric_limits<std::int32_t>::max(); }
inline std::int64_t magnitude(double value) { return std::bit_cast<std::int64_t>(value) & std::numeric_limits<std::int64_t>::max(); }

/// The largest |x|; a NaN where there is one; 0 of nothing.
template <typename T>
T largest_magnitude(std::span<const T> values) {
  decltype(magnitude(T{})) largest = 0;
  for (const T value : values) largest = std::max(largest, magnitude(value));
  return std::bit_cast<T>(largest);
}

template <typename T>
bool all_finite(std::span<const T> values) {
  return std::isfinite(largest_magnitude(values));
}

}  // namespace ddl
