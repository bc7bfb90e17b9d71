#pragma once

#include "ddl/plan/schedule.h"

namespace ddl {

/// Bytes over a link that bus bandwidth counts, over the bytes of the buffer: NCCL's factors (nccl-tests, PERFORMANCE.md):
/// all-reduce 2(P-1)/P; reduce-scatter, all-gather, all-to-all, gather, scatter (P-1)/P; broadcast, reduce, point-to-point 1; barrier 0.
double bus_factor(Goal goal, int ranks);

}  // namespace ddl
