#pragma once

#include <array>
#include <span>

#include "ddl/measure/timeline.h"

namespace ddl {

/// Seconds per cause of one worker over one interval. The causes add up to `wall` exactly: what the spans leave
/// open is the residual.
struct Ledger {
  double wall = 0;
  std::array<double, kCauses> seconds{};

  double& operator[](Cause cause) { return seconds[static_cast<std::size_t>(cause)]; }
  double operator[](Cause cause) const { return seconds[static_cast<std::size_t>(cause)]; }
  Ledger& operator+=(const Ledger& other);
};

/// Folds the spans that overlap [begin, end) into the ledger of `worker`.
///
/// Only the compute stream spends wall time; where its spans nest, the innermost counts. Exposed communication, and a bubble, is
/// split by the moment at which the last worker of that meeting began it on its communication stream: before it the
/// worker waited for that peer, or had a bubble, after it bytes moved. Spans of all workers are therefore wanted; with only the
/// worker's own, everything exposed counts as communication. Clocks of different workers must agree.
Ledger fold(std::span<const Span> spans, int worker, Nanoseconds begin, Nanoseconds end);
/// The same of what flatten() made of them.
Ledger fold(const Trace& compute, Nanoseconds begin, Nanoseconds end);

}  // namespace ddl
