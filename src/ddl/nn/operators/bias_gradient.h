#pragma once

#include "ddl/nn/element_type.h"
#include "ddl/nn/kernels/column_sums.h"
#include "ddl/nn/threads.h"

namespace ddl {

/// The gradient of a bias [channels] of that type: sums over rows [places, channels], which lie one after the other. In one pass: ATen's of bf16 makes fp32 of all of it first.
inline at::Tensor bias_gradient(const at::Tensor& rows, at::ScalarType type) {
  constexpr std::int64_t kRows = 0;
  if (!rows.is_cpu() || !rows.is_contiguous() || !computes_on(type, rows.scalar_type())) return rows.sum(at::IntArrayRef(kRows), false, type);
  auto sums = at::empty({rows.size(1)}, rows.options().requires_grad(false).dtype(type));
  with_value_type(rows, [&](auto zero) {
    using T = decltype(zero);
    const auto count = rows.size(0), columns = rows.size(1);
    const auto blocks = (columns + kColumnsOfAThread - 1) / kColumnsOfAThread;
    share_out(blocks, count * kColumnsOfAThread, [&, from = elements<T>(rows), to = places<Wide<T>>(sums)](std::int64_t begin, std::int64_t end) {
      const auto first = begin * kColumnsOfAThread, last = std::min(columns, end * kColumnsOfAThread);
      column_sums({count, last - first, columns}, from + first, to + first);
    });
  });
  return sums;
}

}  // namespace ddl
