#include "ddl/nn/kernels/column_sums.h"

#include <algorithm>

#include "ddl/core/clones.h"
#include "ddl/nn/kernels/rows.h"

namespace ddl {
namespace {

constexpr std::int64_t kRows = 128;  ///< that are summed without rounding what came before them

template <typename T>
DDL_INLINE void sum(const Columns& of, const T* from, Wide<T>* to) {
  const auto [rows, columns, apart] = of;
  Wide<T> sums[kColumnsTogether];
  double all[kColumnsTogether];
  for (std::int64_t first = 0; first < columns; first += kColumnsTogether) {
    const auto width = std::min(kColumnsTogether, columns - first);
    std::fill(all, all + width, 0.0);
    for (std::int64_t begin = 0; begin < rows; begin += kRows) {
      std::fill(sums, sums + width, Wide<T>{0});
      for (auto r = begin; r < std::min(rows, begin + kRows); ++r)
        for_blocks_of(width, [&](std::int64_t at, std::int64_t n) __attribute__((always_inline)) {
          const T* const __restrict row = from + r * apart + first + at;
          Wide<T>* const __restrict own = sums + at;
          for (std::int64_t c = 0; c < n; ++c) own[c] += row[c];
        });
      for (std::int64_t c = 0; c < width; ++c) all[c] += static_cast<double>(sums[c]);
    }
    for (std::int64_t c = 0; c < width; ++c) to[first + c] = static_cast<Wide<T>>(all[c]);
  }
}

}  // namespace

DDL_CLONES void column_sums(const Columns& of, const float* from, float* to) { sum(of, from, to); }
DDL_CLONES void column_sums(const Columns& of, const Bf16* from, float* to) { sum(of, from, to); }
DDL_CLONES void column_sums(const Columns& of, const double* from, double* to) { sum(of, from, to); }

}  // namespace ddl
