#pragma once

#include <cstdint>

#include "ddl/nn/graph.h"

namespace ddl {

/// Bytes that a product of bf16 works in, beside what is kept and the gradients of values, where the processor does not multiply bf16 itself: its factors are made fp32 first, all of them, and what it makes is rounded after
/// (nn/multiplier.cpp, operators/wide_convolution.h). One at a time is there.
struct WidenedFactors {
  std::int64_t forward = 0;
  std::int64_t of_inputs = 0;   ///< while gradients of what it read are made
  std::int64_t of_weights = 0;  ///< while that of its weights is made, which is fp32 itself
};

/// Of one layer by the fast kernels, of so many samples, with maps that lie channels last; nothing of what is no product, and of convolutions by tiles, which widen tile by tile. `with_inputs`: gradients of what it read are made, too.
WidenedFactors widened_factors(const ModelGraph& graph, int layer, std::int64_t samples, bool with_inputs);

}  // namespace ddl
