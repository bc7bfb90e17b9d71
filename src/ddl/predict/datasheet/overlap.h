#pragma once

#include <algorithm>

namespace ddl {

/// Exchanges among tensor parallel workers beside the products that they are for, as Transformer Engine overlaps them (its user buffers): seconds of both, of a product of p seconds and
/// an all-gather or reduce-scatter of x.
struct TensorOverlap {
  double splits = 0;  ///< pieces of a product whose sums travel while the next is computed; 0: nothing overlaps
  double taken = 0;   ///< share of the multiprocessors that copies take while they run; ring exchanges take none

  explicit operator bool() const { return splits > 0; }
  /// Parts come around a ring of `ranks`, and each is multiplied while the next comes: the first is there, the last is multiplied alone.
  double gathered(double p, double x, double ranks) const { return std::max(p, x) + std::min(p, x) / ranks; }
  /// The sums of the last piece travel alone.
  double scattered(double p, double x) const { return std::max(p + taken * x, x) + std::min(p, x) / splits; }
  /// Of another product's values: neither waits for the other.
  double beside(double p, double x) const { return std::max(p + taken * x, x); }
};

/// What of an exchange of x seconds is left when it may run beside `window` seconds of compute, but for one of `parts`, which comes when that is over.
inline double exposed(double x, double window, double parts) { return std::max(x - window, x / parts); }

}  // namespace ddl
