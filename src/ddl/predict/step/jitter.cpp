#include "ddl/predict/step/jitter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ddl/core/error.h"
#include "ddl/core/random.h"

namespace ddl {
namespace {

/// The share of a standard normal distribution above x.
double above(double x) { return 0.5 * std::erfc(x / std::numbers::sqrt2); }

/// The x with that share above it. By bisection: a few hundred calls a prediction.
double with_above(double share) {
  double low = -40, high = 40;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (above(middle) > share ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace

double Jitter::own() const { return sigma * std::sqrt(std::max(0.0, 1 - std::max(0.0, correlation))); }

double Jitter::lasting() const { return own() * std::sqrt(1 - std::clamp(brief, 0.0, 1.0)); }

double Jitter::of_piece(double seconds) const {
  constexpr double kMost = 0.5;
  if (seconds <= 0 || of_seconds <= 0) return 0;
  return std::min(kMost, own() * std::sqrt(std::clamp(brief, 0.0, 1.0) * of_seconds / seconds));
}

double expected_maximum(int n) {
  if (n < 1) throw Error(Code::invalid_argument, "[jitter] the largest of how many; got none, expected 1 or more");
  if (n == 1) return 0;
  // Of the density n phi(x) Phi(x)^(n-1), by Simpson's rule; beyond 12 there is less than 1e-32 of it, for any n.
  constexpr double kFrom = -12, kTo = 12;
  constexpr int kSteps = 4800;
  const double width = (kTo - kFrom) / kSteps;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = kFrom + width * i;
    const double density = n * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi) * std::exp((n - 1) * std::log1p(-above(x)));
    sum += (i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2) * x * density;
  }
  return sum * width / 3;
}

std::vector<double> draw_maxima(int n, int draws, std::uint64_t seed, std::uint64_t stream) {
  if (n < 1 || draws < 1) throw Error(Code::invalid_argument, fmt::format("[jitter] got {} draws of the largest of {}, expected 1 or more of each", draws, n));
  std::vector<double> out;
  for (const auto part : permutation(draws, seed, stream)) {
    // All n lie below x where each does: 1 - share^(1/n) of the distribution of one lies above.
    const double share = (static_cast<double>(part) + 0.5) / draws;
    out.push_back(with_above(-std::expm1(std::log(share) / n)));
  }
  return out;
}

}  // namespace ddl
