#pragma once

#include <ATen/Parallel.h>

#include "ddl/nn/element_type.h"
#include "ddl/nn/kernels/column_sums.h"

namespace ddl {

/// The gradient of a bias [channels] of that type: sums over rows [places, channels], which lie one after the other. In one pass: ATen's of bf16 makes fp32 of all of it first. Where threads share the work it is ATen's.
inline at::Tensor bias_gradient(const at::Tensor& rows, at::ScalarType type) {
  constexpr std::int64_t kRows = 0;
  if (at::get_num_threads() != 1 || !rows.is_cpu() || !rows.is_contiguous() || !computes_on(type, rows.scalar_type())) return rows.sum(at::IntArrayRef(kRows), false, type);
  auto sums = at::empty({rows.size(1)}, rows.options().requires_grad(false).dtype(type));
  with_value_type(rows, [&](auto zero) {
    using T = decltype(zero);
    column_sums(rows.size(0), rows.size(1), elements<T>(rows), places<Wide<T>>(sums));
  });
  return sums;
}

}  // namespace ddl
