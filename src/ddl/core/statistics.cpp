#include "ddl/core/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ddl/core/random.h"

namespace ddl {
namespace {

double quantile_in_place(std::vector<double>& values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double place = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(below), values.end());
  const double low = values[below];
  if (below + 1 == values.size()) return low;
  const double high = *std::min_element(values.begin() + static_cast<std::ptrdiff_t>(below) + 1, values.end());
  return low + (high - low) * (place - static_cast<double>(below));
}

}  // namespace

double mean(std::span<const double> samples) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double quantile(std::span<const double> samples, double q) {
  std::vector<double> values(samples.begin(), samples.end());
  return quantile_in_place(values, q);
}

double median(std::span<const double> samples) { return quantile(samples, 0.5); }

Interval median_interval(std::span<const double> samples, int resamples, std::uint64_t seed) {
  const double centre = median(samples);
  if (samples.size() < 2) return {centre, centre, centre};
  // Long runs are thinned before resampling: beyond some thousands the interval is narrower than the clock is true.
  constexpr std::size_t kMost = 4000;
  std::vector<double> thinned;
  const std::size_t stride = (samples.size() + kMost - 1) / kMost;
  for (std::size_t i = 0; i < samples.size(); i += stride) thinned.push_back(samples[i]);
  const std::size_t n = thinned.size();
  const auto block = static_cast<std::size_t>(std::ceil(std::cbrt(static_cast<double>(n))));
  Random random(seed);
  std::vector<double> medians;
  std::vector<double> drawn(n);
  for (int r = 0; r < resamples; ++r) {
    for (std::size_t filled = 0; filled < n;) {
      const std::size_t start = random.below(n - block + 1);
      for (std::size_t k = 0; k < block && filled < n; ++k) drawn[filled++] = thinned[start + k];
    }
    medians.push_back(quantile_in_place(drawn, 0.5));
  }
  return {centre, std::min(centre, quantile(medians, 0.025)), std::max(centre, quantile(medians, 0.975))};
}

double spread(std::span<const double> samples) { return (quantile(samples, 0.84) - quantile(samples, 0.16)) / 2; }

double robust_correlation(std::span<const double> a, std::span<const double> b) {
  const double of_a = spread(a), of_b = spread(b);
  if (!(of_a > 0) || !(of_b > 0)) return 0;
  std::vector<double> sums, differences;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    sums.push_back(a[i] / of_a + b[i] / of_b);
    differences.push_back(a[i] / of_a - b[i] / of_b);
  }
  const double plus = std::pow(spread(sums), 2), minus = std::pow(spread(differences), 2);
  return plus + minus > 0 ? (plus - minus) / (plus + minus) : 0;
}

std::size_t warm_up_end(std::span<const double> samples) {
  const std::size_t n = samples.size();
  if (n < 4) return 0;
  // With prefix sums the gain of a split is k(n-k)/n times the squared difference of the two means.
  const double total = std::accumulate(samples.begin(), samples.end(), 0.0);
  double sum = 0, best_gain = 0;
  std::size_t best = 0;
  for (std::size_t k = 1; k <= n / 2; ++k) {
    sum += samples[k - 1];
    const double before = sum / static_cast<double>(k);
    const double after = (total - sum) / static_cast<double>(n - k);
    const double gain = static_cast<double>(k) * static_cast<double>(n - k) * (before - after) * (before - after);
    if (before > after && gain > best_gain) {
      best_gain = gain;
      best = k;
    }
  }
  return best;
}

}  // namespace ddl
