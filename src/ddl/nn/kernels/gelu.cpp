#include "ddl/nn/kernels/gelu.h"

#include <cmath>

#include "ddl/core/clones.h"
#include "ddl/nn/kernels/exponential.h"

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

}  // namespace

DDL_CLONES void gelu_elements(const float* in, float* out, std::int64_t n) {
  const float* const __restrict x = in;
  float* const __restrict y = out;
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * normal(x[i]).below;
}

DDL_CLONES void gelu_gradient(const float* in, const float* gradient, float* to, std::int64_t n) {
  constexpr float kOneOverRootTau = 0.39894228F;  // 1 / sqrt(2 pi)
  const float* const __restrict x = in;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto [below, e] = normal(x[i]);
    to[i] = gradient[i] * (below + x[i] * kOneOverRootTau * e);
  }
}

}  // namespace ddl
