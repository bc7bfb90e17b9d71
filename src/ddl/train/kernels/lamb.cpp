#include <algorithm>
#include <cmath>

#include "ddl/core/clones.h"
#include "ddl/train/kernels/optimizer_kernels.h"

namespace ddl {
namespace {

constexpr std::size_t kLanes = 16;  // partial sums, each of every 16th element

template <typename T>
DDL_INLINE T direction(T p, T m, T v, const LambStep<T>& s) {
  return m * s.correction / (std::sqrt(v) * s.root + s.epsilon) + s.weight_decay * p;
}

template <typename T>
DDL_INLINE LambNorms moments(const T* __restrict p, T* __restrict m, T* __restrict v, const T* __restrict g, std::size_t n, const LambStep<T>& s) {
  double parameter[kLanes] = {}, whole[kLanes] = {};
  const auto one = [&](std::size_t i, std::size_t lane) __attribute__((always_inline)) {
    const T d = s.scale * g[i];
    m[i] = s.beta1 * m[i] + (T{1} - s.beta1) * d;
    v[i] = s.beta2 * v[i] + (T{1} - s.beta2) * (d * d);
    const double u = direction(p[i], m[i], v[i], s), w = p[i];
    parameter[lane] += w * w;
    whole[lane] += u * u;
  };
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) one(i + lane, lane);
  for (std::size_t lane = 0; i < n; ++i, ++lane) one(i, lane);
  LambNorms norms{0, 0};
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    norms.parameter += parameter[lane];
    norms.direction += whole[lane];
  }
  return norms;
}

template <typename T>
DDL_INLINE void apply(T* __restrict p, const T* __restrict m, const T* __restrict v, std::size_t n, T rate, const LambStep<T>& given) {
  const LambStep<T> s = given;
  for (std::size_t i = 0; i < n; ++i) p[i] -= rate * direction(p[i], m[i], v[i], s);
}

}  // namespace

DDL_CLONES LambNorms lamb_moments(const float* p, float* m, float* v, const float* g, std::size_t n, const LambStep<float>& s) {
  return moments(p, m, v, g, n, s);
}
DDL_CLONES LambNorms lamb_moments(const double* p, double* m, double* v, const double* g, std::size_t n, const LambStep<double>& s) {
  return moments(p, m, v, g, n, s);
}
DDL_CLONES void lamb_apply(float* p, const float* m, const float* v, std::size_t n, float rate, const LambStep<float>& s) {
  apply(p, m, v, n, rate, s);
}
DDL_CLONES void lamb_apply(double* p, const double* m, const double* v, std::size_t n, double rate, const LambStep<double>& s) {
  apply(p, m, v, n, rate, s);
}

}  // namespace ddl
