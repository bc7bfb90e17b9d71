#include "ddl/core/clones.h"
#include "ddl/train/kernels/optimizer_kernels.h"

namespace ddl {
namespace {

constexpr std::size_t kLanes = 16;  // partial sums, each of every 16th element

template <typename T>
DDL_INLINE double squares(const T* x, std::size_t n) {
  double partial[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = x[i + lane];
      partial[lane] += value * value;
    }
  for (std::size_t lane = 0; i < n; ++i, ++lane) partial[lane] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double sum = 0;
  for (const double part : partial) sum += part;
  return sum;
}

}  // namespace

DDL_CLONES double sum_of_squares(const float* x, std::size_t n) { return squares(x, n); }
DDL_CLONES double sum_of_squares(const double* x, std::size_t n) { return squares(x, n); }

}  // namespace ddl
