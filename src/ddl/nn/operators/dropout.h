#pragma once

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/nn/graph.h"

namespace ddl {

/// By what the elements of each sample fall: of a layer, its number in its graph, the samples' numbers in the data set, a step and the run's seed.
std::vector<std::int64_t> dropout_keys(const Layer& layer, int number, const std::vector<std::int64_t>& samples, std::int64_t step, std::uint64_t seed);

/// Of [n, …], what dropout leaves: each element 0 or divided by 1 - rate. keys[i] decides for sample i, and nothing else: the same elements
/// fall on every device and in every type. By our kernel on the CPU; elsewhere, and with `aten`, by ATen's operators, waiting for nothing.
/// With `runs`, `from` is those elements of each sample, and what falls is what would of the whole.
at::Tensor drop(const at::Tensor& from, const std::vector<std::int64_t>& keys, double rate, bool aten = false, const std::vector<IndexRange>& runs = {});
/// The same by ATen's operators, of keys that are where `from` is: [n] int64.
at::Tensor drop_by(const at::Tensor& from, const at::Tensor& keys, double rate, const std::vector<IndexRange>& runs = {});

/// Which elements of a whole sample, as they stand in memory, a piece has, in its order: runs of neighbours.
std::vector<IndexRange> runs_of(const TensorPiece& piece);

}  // namespace ddl
