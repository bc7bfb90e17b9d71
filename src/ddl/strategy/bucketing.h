#pragma once

#include <cstdint>
#include <vector>

#include "ddl/core/spec.h"

namespace ddl {

/// How gradients are exchanged in buckets: what data[bucket=auto] leaves to a run's first steps.
struct Bucketing {
  std::int64_t bytes = 0;  ///< of a bucket
  bool overlap = true;     ///< whether buckets are exchanged while backward runs, or after it

  friend bool operator==(const Bucketing& a, const Bucketing& b) { return a.bytes == b.bytes && a.overlap == b.overlap; }
};

/// Whether it is found by a run's first steps: data[bucket=auto]. Until it is, and where it is only planned, buckets are as if nothing were said.
bool tunes_buckets(const Spec& strategy);

/// Whether the strategy exchanges buckets while backward runs: overlap=on|off, or as it does where that is not said.
bool overlaps_backward(const Spec& data);

/// Those worth a trial where so many bytes of gradients are exchanged. First as if nothing were said; then other sizes in ascending order, from 1 MiB on, each about four times the one before, the last with everything in one
/// bucket; at last the first one's size with the other overlap, where the strategy does not say which. One alone where there is nothing to choose.
std::vector<Bucketing> bucketings(const Spec& strategy, std::int64_t gradient_bytes);

/// What the first has to be beaten by, relative: less may be chance.
inline constexpr double kBetterBucket = 0.01;

/// The strategy with that in place of auto.
Spec with_bucketing(Spec strategy, const Bucketing& bucketing);

}  // namespace ddl
