#include "ddl/core/clones.h"
#include "ddl/train/kernels/optimizer_kernels.h"

namespace ddl {
namespace {

template <typename T>
DDL_INLINE void step(T* __restrict p, T* __restrict m, const T* __restrict g, std::size_t n, const SgdStep<T>& s) {
  const T rate = s.learning_rate, momentum = s.momentum, decay = s.weight_decay, scale = s.scale;
  if (m == nullptr) {
    for (std::size_t i = 0; i < n; ++i) p[i] -= rate * (scale * g[i] + decay * p[i]);
  } else if (s.nesterov) {
    for (std::size_t i = 0; i < n; ++i) {
      const T d = scale * g[i] + decay * p[i];
      m[i] = momentum * m[i] + d;
      p[i] -= rate * (d + momentum * m[i]);
    }
  } else {
    for (std::size_t i = 0; i < n; ++i) {
      m[i] = momentum * m[i] + (scale * g[i] + decay * p[i]);
      p[i] -= rate * m[i];
    }
  }
}

}  // namespace

DDL_CLONES void sgd_step(float* p, float* m, const float* g, std::size_t n, const SgdStep<float>& s) { step(p, m, g, n, s); }
DDL_CLONES void sgd_step(double* p, double* m, const double* g, std::size_t n, const SgdStep<double>& s) { step(p, m, g, n, s); }

}  // namespace ddl
