#pragma once

#include "ddl/nn/element_type.h"
#include "ddl/nn/operators/columns.h"

namespace ddl {

/// The gradient of a bias [channels] of that type: sums over rows [places, channels], which lie one after the other. In one pass: ATen's of bf16 makes fp32 of all of it first.
inline at::Tensor bias_gradient(const at::Tensor& rows, at::ScalarType type) {
  constexpr std::int64_t kRows = 0;
  if (!rows.is_cpu() || !rows.is_contiguous() || !computes_on(type, rows.scalar_type())) return rows.sum(at::IntArrayRef(kRows), false, type);
  auto sums = at::empty({rows.size(1)}, rows.options().requires_grad(false).dtype(type));
  with_value_type(rows, [&](auto zero) {
    using T = decltype(zero);
    const auto count = rows.size(0), columns = rows.size(1);
    share_out_columns(count, columns, [&, from = elements<T>(rows), to = places<Wide<T>>(sums)](std::int64_t first, std::int64_t some) { column_sums({count, some, columns}, from + first, to + first); });
  });
  return sums;
}

}  // namespace ddl
