#pragma once

#include <cmath>
#include <utility>

namespace ddl {

/// Where 90 % of what is predicted lies, `sigma` being the standard deviation of the logarithm of measured over predicted: exp(-+ 1.9 sigma), since tails are longer than a normal distribution's
/// (docs/validation.md, "Intervals").
inline std::pair<double, double> interval_of(double predicted, double sigma) {
  const double wide = std::exp(1.9 * sigma);
  return {predicted / wide, predicted * wide};
}

}  // namespace ddl
