#pragma once

#include <cstddef>
#include <span>

namespace ddl {

/// term(0) + term(1) + …, in eight sums, since one alone would wait for each addition, and in an order that n alone
/// decides, so that the bits are the same on every machine.
template <typename Term>
double sum_of(std::size_t n, const Term& term) {
  double sums[8] = {};
  std::size_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (std::size_t k = 0; k < 8; ++k) sums[k] += term(i + k);
  for (std::size_t k = 0; i < n; ++i, ++k) sums[k] += term(i);
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

template <typename T>
bool all_finite(std::span<const T> values) {
  // x - x is 0 or NaN: one comparison at the end, so that the loop has no branch.
  return sum_of(values.size(), [&](std::size_t i) { return static_cast<double>(values[i] - values[i]); }) == 0;
}

}  // namespace ddl
