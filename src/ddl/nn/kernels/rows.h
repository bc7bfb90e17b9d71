#pragma once

#include <cstdint>

#include "ddl/core/clones.h"

namespace ddl {

// Within kernels that sum over the rows of a matrix.

/// Rows are read from end to end as far as so many columns go: memory is fetched ahead of who reads on, not of who leaps from row to row. Sums of them stay in the first cache.
inline constexpr std::int64_t kColumnsTogether = 512;
/// At once, a number that loops know.
inline constexpr std::int64_t kColumnsAtOnce = 64;
static_assert(kColumnsTogether % kColumnsAtOnce == 0);

/// `f(first, count)` for columns [0, width), kColumnsAtOnce at a time.
template <typename F>
DDL_INLINE void for_blocks_of(std::int64_t width, F&& f) {
  std::int64_t c = 0;
  for (; c + kColumnsAtOnce <= width; c += kColumnsAtOnce) f(c, kColumnsAtOnce);
  if (c < width) f(c, width - c);
}

}  // namespace ddl
