#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ddl/measure/trace.h"

namespace ddl {

struct Period {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
};

/// When the last worker of each meeting began it on its communication stream: from then on its bytes can move. Wants the spans of all workers.
class Arrivals {
 public:
  explicit Arrivals(std::span<const Span> spans);
  /// Of the meeting of that span; absent where it is in none, or nobody is known to have begun it.
  std::optional<Nanoseconds> of(const Span& span) const;

 private:
  std::map<std::pair<std::int32_t, std::uint32_t>, Nanoseconds> last_;  ///< by step and meeting
};

/// What the compute stream of `worker` did over [begin, end), flattened: pieces of its spans in order and without overlap, at each time of
/// the innermost. Exposed communication, and a bubble, are cut at the last arrival: before it stands `wait`, or `bubble`, after it
/// `communication`. What is left open is the ledger's residual.
Trace flatten(std::span<const Span> spans, int worker, Nanoseconds begin, Nanoseconds end, const Arrivals& arrivals);

/// When bytes of `worker` moved over [begin, end): on its communication stream, after the last arrival, and where its compute stream stood
/// still for them. In order, without overlap. `compute` is what flatten() gave.
std::vector<Period> moving(std::span<const Span> spans, int worker, Nanoseconds begin, Nanoseconds end, const Arrivals& arrivals, const Trace& compute);

/// The causes that are computation: forward, backward and update.
constexpr bool computes(Cause cause) { return cause == Cause::forward || cause == Cause::backward || cause == Cause::update; }

/// How communication lay beside computation. Seconds.
struct Activity {
  double communication = 0;  ///< bytes moved
  double overlapped = 0;     ///< of these, while the compute stream computed
  double idle = 0;           ///< nothing was computed or copied, and no bytes moved
  Activity& operator+=(const Activity& other);
};

/// Of [begin, end), from flatten() and moving(). Takes time in proportion to both.
Activity activity(const Trace& compute, const std::vector<Period>& moved, Nanoseconds begin, Nanoseconds end);

}  // namespace ddl
