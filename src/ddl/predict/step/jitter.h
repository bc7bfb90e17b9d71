#pragma once

#include <cstdint>
#include <vector>

namespace ddl {

/// How much what a worker computes varies from step to step: the logarithm of its seconds is taken for normal, and correlated between workers of the same step (what slows all of them at once).
struct Jitter {
  double sigma = 0;        ///< standard deviation of that logarithm
  double correlation = 0;  ///< of two workers' in the same step, 0 to 1
  double brief = 0;        ///< of a worker's own variance the share that comes and goes within a step, 0 to 1; the rest is there for all of a step
  double of_seconds = 0;   ///< s, of the work whose logarithm varies so; 0: whatever a step takes
  /// What of it is a worker's own. What all have in common moves no median, and has nobody wait.
  double own() const;
  /// Of that, what is there for all of a step.
  double lasting() const;
  /// Of work of so many seconds, what comes and goes within a step, relative: what holds it up comes so many times a second, whatever is computed, so that variances of pieces add up. No more than a half.
  double of_piece(double seconds) const;
};

/// Of predictions: so many draws, the same for the same experiment. They are spread evenly, so that their mean is within a few thousandths of a step.
inline constexpr int kJitterDraws = 32;
inline constexpr std::uint64_t kJitterSeed = 1;

/// The mean of the largest of n independent standard normal variables; 0 of one, 1/sqrt(pi) of two. Of correlated ones it is sqrt(1 - correlation) of that.
/// Source:  Tippett, On the extreme individuals and the range of samples taken from a normal population, Biometrika 17, 1925.
double expected_maximum(int n);

/// So many draws of the largest of n independent standard normal variables, one from each of as many equally probable parts of its distribution, in random order, the same for the same seed and
/// stream: means over few draws are then near the distribution's.
/// Source:  McKay, Beckman & Conover, A comparison of three methods for selecting values of input variables, Technometrics 21, 1979.
std::vector<double> draw_maxima(int n, int draws, std::uint64_t seed, std::uint64_t stream);

}  // namespace ddl
