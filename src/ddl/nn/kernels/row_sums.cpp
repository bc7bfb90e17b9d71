#include "ddl/nn/kernels/row_sums.h"

#include "ddl/core/clones.h"

namespace ddl {
namespace {

template <typename T>
DDL_INLINE void add(const Columns& of, const std::int64_t* numbers, const T* from, T* to) {
  for (std::int64_t r = 0; r < of.rows; ++r) {
    const T* const __restrict row = from + r * of.apart;
    T* const __restrict own = to + numbers[r] * of.apart;
    for (std::int64_t c = 0; c < of.columns; ++c) own[c] += row[c];
  }
}

}  // namespace

DDL_CLONES void add_rows(const Columns& of, const std::int64_t* numbers, const float* from, float* to) { add(of, numbers, from, to); }
DDL_CLONES void add_rows(const Columns& of, const std::int64_t* numbers, const double* from, double* to) { add(of, numbers, from, to); }

}  // namespace ddl
