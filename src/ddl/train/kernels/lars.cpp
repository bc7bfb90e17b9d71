#include "ddl/core/clones.h"
#include "ddl/train/kernels/optimizer_kernels.h"

namespace ddl {
namespace {

template <typename T>
DDL_INLINE void step(T* __restrict p, T* __restrict m, const T* __restrict g, std::size_t n, const LarsStep<T>& s) {
  const T rate = s.rate, momentum = s.momentum, decay = s.weight_decay, scale = s.scale;
  for (std::size_t i = 0; i < n; ++i) {
    m[i] = momentum * m[i] + rate * (scale * g[i] + decay * p[i]);
    p[i] -= m[i];
  }
}

}  // namespace

DDL_CLONES void lars_step(float* p, float* m, const float* g, std::size_t n, const LarsStep<float>& s) { step(p, m, g, n, s); }
DDL_CLONES void lars_step(double* p, double* m, const double* g, std::size_t n, const LarsStep<double>& s) { step(p, m, g, n, s); }

}  // namespace ddl
