#pragma once

#include <cstdint>

namespace ddl {

/// A factor of a product, wherever its elements lie: so many elements from row to row and from column to column.
struct SmallFactor {
  const float* at;
  std::int64_t row, column;
};

/// to[m][n] = sum over k of left(m, k) right[k][n], or plus that. Of matrices that caches hold, as those of attention's heads: what a library spends on calling, choosing and packing is most of what such a product takes. Rows of `right` and
/// `to` lie dense, `right_row` and `to_row` elements apart. In fused multiply-adds where the processor has them, each sum in the order of k: the same bits on every processor that has.
void multiply_small(std::int64_t m, std::int64_t n, std::int64_t k, const SmallFactor& left, const float* right, std::int64_t right_row, float* to, std::int64_t to_row, bool adds);

/// to[column][row] = from[row][column]; rows of `from` are `from_row` elements apart, those of `to` `rows`.
void transpose_small(std::int64_t rows, std::int64_t columns, const float* from, std::int64_t from_row, float* to);

}  // namespace ddl
