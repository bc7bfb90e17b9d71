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

/// Half the distance between the 16 % and the 84 % quantile: a normal distribution's standard deviation, which a few far away do not move.
double spread(std::span<const double> samples);
/// Of two series of one length, that a few pairs far away do not move: of both over their spreads, sum and difference, by the squares of theirs; -1 to 1, 0 where one does not vary.
/// Source:  Gnanadesikan & Kettenring, Robust estimates, residuals, and outlier detection with multiresponse data, Biometrics 28, 1972.
double robust_correlation(std::span<const double> a, std::span<const double> b);

/// Median with a 95 % percentile-bootstrap interval (Efron 1979), `resamples` draws, the same for the same seed.
/// Successive steps are correlated, so whole blocks of ceil(n^(1/3)) neighbours are drawn (Künsch 1989).
Interval median_interval(std::span<const double> samples, int resamples = 1000, std::uint64_t seed = 1);

/// Where the warm-up ends: the split that most lowers the squared error of two means instead of one (one change
/// point, searched over the first half), or 0 where the first part is not slower.
std::size_t warm_up_end(std::span<const double> samples);

}  // namespace ddl
