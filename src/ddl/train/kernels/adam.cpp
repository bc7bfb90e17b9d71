#include <cmath>

#include "ddl/core/clones.h"
#include "ddl/train/kernels/optimizer_kernels.h"

namespace ddl {
namespace {

template <typename T>
DDL_INLINE void step(T* __restrict p, T* __restrict m, T* __restrict v, const T* __restrict g, std::size_t n, const AdamStep<T>& s) {
  const T beta1 = s.beta1, beta2 = s.beta2, epsilon = s.epsilon, decay = s.weight_decay, scale = s.scale;
  const T rate = s.rate, root = s.root, keep = s.keep;
  for (std::size_t i = 0; i < n; ++i) {
    const T d = scale * g[i] + decay * p[i];
    m[i] = beta1 * m[i] + (T{1} - beta1) * d;
    v[i] = beta2 * v[i] + (T{1} - beta2) * (d * d);
    p[i] = keep * p[i] - rate * m[i] / (std::sqrt(v[i]) * root + epsilon);
  }
}

}  // namespace

DDL_CLONES void adam_step(float* p, float* m, float* v, const float* g, std::size_t n, const AdamStep<float>& s) {
  step(p, m, v, g, n, s);
}
DDL_CLONES void adam_step(double* p, double* m, double* v, const double* g, std::size_t n, const AdamStep<double>& s) {
  step(p, m, v, g, n, s);
}

}  // namespace ddl
