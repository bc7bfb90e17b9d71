#pragma once

#include "ddl/collective/communicator.h"

namespace ddl {

/// ours[i] = op(ours[i], theirs[i]) for `elements` elements, the sum divided by `divisor` where the kernel is one that
/// divides. The ranges do not overlap; `theirs` may have any alignment. Sums of integers wrap around; max and min of a
/// NaN and anything are NaN, so that no rank hides one.
using ReduceKernel = void (*)(std::byte* ours, const std::byte* theirs, std::size_t elements, std::int64_t divisor);

/// The fastest one that this processor runs. `divides`: (ours + theirs) / divisor, the last step of an average;
/// integers are rounded towards zero.
ReduceKernel reduce_kernel(ReduceOp op, ElementType type, bool divides);

}  // namespace ddl
