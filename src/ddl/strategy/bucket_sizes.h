#pragma once

#include <cstdint>
#include <vector>

#include "ddl/core/spec.h"

namespace ddl {

/// Whether the size of gradients' buckets is found by a run's first steps: data[bucket=auto]. Until it is, and where it is only planned, they are as if nothing were said.
bool tunes_buckets(const Spec& strategy);

/// Sizes worth a trial where so many bytes of gradients are exchanged, in ascending order: from 1 MiB on, each about four times the one before, among them the standard one; the last has everything in one bucket.
std::vector<std::int64_t> bucket_sizes(std::int64_t gradient_bytes);

/// What the standard size has to be beaten by, relative: less may be chance.
inline constexpr double kBetterBucket = 0.01;

/// The strategy with that size in place of auto.
Spec with_bucket(Spec strategy, std::int64_t bytes);

}  // namespace ddl
