#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ddl {

/// Counter-based random numbers: the n-th draw of a stream is a pure function of (seed, stream, n), so that
/// workers, epochs and samples draw independently of the order in which they run.
/// Source: the finaliser of SplitMix64, Steele, Lea & Flood, OOPSLA 2014.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0);

  std::uint64_t bits();
  /// The same so many times, several at once.
  void fill(std::span<std::uint64_t> draws);
  /// Uniform in [0, 1), 24 random bits: every value is exact in fp32.
  float uniform();
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  /// Uniform in [0, below), without modulo bias beyond 2^-64 * below.
  std::uint64_t below(std::uint64_t limit);
  /// Mean 0, variance 1 (Box & Muller 1958).
  float normal();

 private:
  std::uint64_t key_;
  std::uint64_t counter_ = 0;
  float spare_ = 0;
  bool has_spare_ = false;
};

/// A uniformly random order of 0 … n-1 (Fisher–Yates), the same for the same seed and stream.
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t seed, std::uint64_t stream);

}  // namespace ddl
