#include "ddl/nn/kernels/gelu.h"

#include <algorithm>
#include <cmath>

#include "ddl/core/clones.h"
#include "ddl/nn/kernels/exponential.h"
#include "ddl/nn/kernels/widen.h"

namespace ddl {
namespace {

struct Normal {
  float below, exponential;  ///< P(x), and e^(-x^2 / 2)
};

DDL_INLINE Normal normal(float x) {
  constexpr float kOneOverRoot2 = 0.70710678F;
  const float e = exponential(-0.5F * x * x), t = 1.0F / (1.0F + 0.3275911F * kOneOverRoot2 * std::fabs(x));
  float p = 1.061405429F;
  p = p * t - 1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t - 0.284496736F;
  p = p * t + 0.254829592F;
  const float above = 0.5F * p * t * e;
  return {x < 0 ? above : 1.0F - above, e};
}

constexpr std::int64_t kAtOnce = 256;

template <typename T>
DDL_INLINE void values(const T* in, T* out, std::int64_t count) {
  [[maybe_unused]] float seen[kAtOnce], made[kAtOnce];
  for (std::int64_t begin = 0; begin < count; begin += kAtOnce) {
    const auto n = std::min(kAtOnce, count - begin);
    const float* const __restrict x = widened(in + begin, n, seen);
    float* const __restrict y = place_of(out + begin, made);
    for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * normal(x[i]).below;
    put(made, n, out + begin);
  }
}

template <typename T>
DDL_INLINE void slopes(const T* in, const T* gradient, T* to, std::int64_t count) {
  constexpr float kOneOverRootTau = 0.39894228F;  // 1 / sqrt(2 pi)
  [[maybe_unused]] float seen[kAtOnce], given[kAtOnce], made[kAtOnce];
  for (std::int64_t begin = 0; begin < count; begin += kAtOnce) {
    const auto n = std::min(kAtOnce, count - begin);
    const float *const __restrict x = widened(in + begin, n, seen), *const g = widened(gradient + begin, n, given);
    float* const y = place_of(to + begin, made);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto [below, e] = normal(x[i]);
      y[i] = g[i] * (below + x[i] * kOneOverRootTau * e);
    }
    put(made, n, to + begin);
  }
}

}  // namespace

DDL_CLONES void gelu_elements(const float* in, float* out, std::int64_t n) { values(in, out, n); }
DDL_CLONES void gelu_elements(const Bf16* in, Bf16* out, std::int64_t n) { values(in, out, n); }

DDL_CLONES void gelu_gradient(const float* in, const float* gradient, float* to, std::int64_t n) { slopes(in, gradient, to, n); }
DDL_CLONES void gelu_gradient(const Bf16* in, const Bf16* gradient, Bf16* to, std::int64_t n) { slopes(in, gradient, to, n); }

}  // namespace ddl
