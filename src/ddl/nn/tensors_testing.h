#pragma once

#include <ATen/ATen.h>

namespace ddl {

/// The largest absolute value of `tensor`, which has an element at least.
inline double largest(const at::Tensor& tensor) { return tensor.abs().max().item<double>(); }

/// [samples, channels, height, width] of normal values, as images that `fast` kernels read; drawn in fp64, whatever `type` is.
inline at::Tensor channels_last(at::IntArrayRef sizes, at::ScalarType type) { return at::randn(sizes, at::kDouble).to(type).contiguous(at::MemoryFormat::ChannelsLast); }

}  // namespace ddl
