#include "ddl/nn/kernels/column_sums.h"

#include <algorithm>
#include <array>

#include "ddl/core/clones.h"

namespace ddl {
namespace {

constexpr std::int64_t kRows = 128;    ///< that are summed without rounding what came before them
constexpr std::int64_t kColumns = 64;  ///< at once: as many sums as stay in registers

template <bool kAll, typename T>
DDL_INLINE void sum_block(std::int64_t rows, std::int64_t stride, std::int64_t columns, const T* __restrict from, Wide<T>* __restrict sums) {
  const auto n = kAll ? kColumns : columns;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < n; ++c) sums[c] += static_cast<Wide<T>>(from[r * stride + c]);
}

template <typename T>
DDL_INLINE void sum(std::int64_t rows, std::int64_t columns, const T* from, Wide<T>* to) {
  for (std::int64_t first = 0; first < columns; first += kColumns) {
    const auto n = std::min(kColumns, columns - first);
    std::array<double, kColumns> all{};
    for (std::int64_t row = 0; row < rows; row += kRows) {
      std::array<Wide<T>, kColumns> sums{};
      const auto* const block = from + row * columns + first;
      const auto count = std::min(kRows, rows - row);
      if (n == kColumns) sum_block<true>(count, columns, n, block, sums.data());
      else sum_block<false>(count, columns, n, block, sums.data());
      for (std::int64_t c = 0; c < n; ++c) all[static_cast<std::size_t>(c)] += static_cast<double>(sums[static_cast<std::size_t>(c)]);
    }
    for (std::int64_t c = 0; c < n; ++c) to[first + c] = static_cast<Wide<T>>(all[static_cast<std::size_t>(c)]);
  }
}

}  // namespace

DDL_CLONES void column_sums(std::int64_t rows, std::int64_t columns, const float* from, float* to) { sum(rows, columns, from, to); }
DDL_CLONES void column_sums(std::int64_t rows, std::int64_t columns, const Bf16* from, float* to) { sum(rows, columns, from, to); }
DDL_CLONES void column_sums(std::int64_t rows, std::int64_t columns, const double* from, double* to) { sum(rows, columns, from, to); }

}  // namespace ddl
