#include "ddl/nn/kernels/column_sums.h"

#include <algorithm>

#include "ddl/core/clones.h"

namespace ddl {
namespace {

constexpr std::int64_t kRows = 128;       ///< that are summed without rounding what came before them
constexpr std::int64_t kColumns = 64;     ///< at once, a number that loops know
constexpr std::int64_t kTogether = 512;   ///< rows are read from end to end as far as so many go: memory is fetched ahead of who reads on

template <typename T>
DDL_INLINE void add_row(std::int64_t columns, const T* __restrict row, Wide<T>* __restrict sums) {
  std::int64_t at = 0;
  for (; at + kColumns <= columns; at += kColumns)
    for (std::int64_t c = 0; c < kColumns; ++c) sums[at + c] += row[at + c];
  for (; at < columns; ++at) sums[at] += row[at];
}

template <typename T>
DDL_INLINE void sum(std::int64_t rows, std::int64_t columns, const T* from, Wide<T>* to) {
  Wide<T> sums[kTogether];
  double all[kTogether];
  for (std::int64_t first = 0; first < columns; first += kTogether) {
    const auto width = std::min(kTogether, columns - first);
    std::fill(all, all + width, 0.0);
    for (std::int64_t begin = 0; begin < rows; begin += kRows) {
      std::fill(sums, sums + width, Wide<T>{0});
      for (auto r = begin; r < std::min(rows, begin + kRows); ++r) add_row(width, from + r * columns + first, sums);
      for (std::int64_t c = 0; c < width; ++c) all[c] += static_cast<double>(sums[c]);
    }
    for (std::int64_t c = 0; c < width; ++c) to[first + c] = static_cast<Wide<T>>(all[c]);
  }
}

}  // namespace

DDL_CLONES void column_sums(std::int64_t rows, std::int64_t columns, const float* from, float* to) { sum(rows, columns, from, to); }
DDL_CLONES void column_sums(std::int64_t rows, std::int64_t columns, const Bf16* from, float* to) { sum(rows, columns, from, to); }
DDL_CLONES void column_sums(std::int64_t rows, std::int64_t columns, const double* from, double* to) { sum(rows, columns, from, to); }

}  // namespace ddl
