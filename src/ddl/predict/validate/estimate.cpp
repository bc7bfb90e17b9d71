#include "ddl/predict/validate/estimate.h"

#include <cmath>

#include "ddl/core/error.h"

namespace ddl {

Estimate estimate_row(const MeasuredRow& row) { return row.model == "gpt" ? estimate_gpt(row) : estimate_images(row); }

std::pair<double, double> interval_of(const Estimate& estimate) {
  constexpr double kSigmas = 1.9;
  const double wide = std::exp(kSigmas * estimate.sigma);
  return {estimate.seconds / wide, estimate.seconds * wide};
}

}  // namespace ddl
