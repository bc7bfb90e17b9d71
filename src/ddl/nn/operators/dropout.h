#pragma once

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/nn/graph.h"

namespace ddl {

/// Of [n, …], what dropout leaves: each element 0 or divided by 1 - rate. keys[i] decides for sample i, and nothing else: the same elements
/// fall on every device and in every type. By our kernel on the CPU; elsewhere, and with `aten`, by ATen's operators, waiting for nothing.
/// With `runs`, `from` is those elements of each sample, and what falls is what would of the whole.
at::Tensor drop(const at::Tensor& from, const std::vector<std::int64_t>& keys, double rate, bool aten = false, const std::vector<IndexRange>& runs = {});

/// Which elements of a whole sample, as they stand in memory, a piece has, in its order: runs of neighbours.
std::vector<IndexRange> runs_of(const TensorPiece& piece);

}  // namespace ddl
