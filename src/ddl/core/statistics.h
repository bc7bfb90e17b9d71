#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddl {

/// A value with its 95 % interval.
struct Interval {
  double median = 0;
  double low = 0;
  double high = 0;
};

double mean(std::span<const double> samples);
/// Linear interpolation between order statistics (type 7 of Hyndman & Fan 1996); q in [0, 1]; NaN of nothing.
double quantile(std::span<const double> samples, double q);
double median(std::span<const double> samples);

/// Median with a 95 % percentile-bootstrap interval (Efron 1979), `resamples` draws, the same for the same seed.
/// Successive steps are correlated, so whole blocks of ceil(n^(1/3)) neighbours are drawn (Künsch 1989).
Interval median_interval(std::span<const double> samples, int resamples = 1000, std::uint64_t seed = 1);

/// Where the warm-up ends: the split that most lowers the squared error of two means instead of one (one change
/// point, searched over the first half), or 0 where the first part is not slower.
std::size_t warm_up_end(std::span<const double> samples);

}  // namespace ddl
