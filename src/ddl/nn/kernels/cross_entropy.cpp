#include "ddl/nn/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "ddl/core/clones.h"
#include "ddl/nn/kernels/exponential.h"

namespace ddl {
namespace {

constexpr std::int64_t kLanes = 16;  // partial sums, each of every 16th element

DDL_INLINE float largest(const float* x, std::int64_t n) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, x[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  for (; i < n; ++i) lanes[0] = std::max(lanes[0], x[i]);
  return *std::max_element(lanes, lanes + kLanes);
}

DDL_INLINE double sum_of_exponentials(const float* x, std::int64_t n, float from) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += exponential(x[i + lane] - from);
  for (std::int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += exponential(x[i] - from);
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

DDL_INLINE double sum_of(const float* x, std::int64_t n) {
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(x[i + lane]);
  for (std::int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += static_cast<double>(x[i]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

DDL_CLONES void cross_entropy_rows(const CrossEntropy& of, std::int64_t first, std::int64_t last, float* log_sums, double* losses) {
  for (auto row = first; row < last; ++row) {
    const float* const x = of.logits + row * of.classes;
    losses[row] = 0;
    if (of.expected[row] == of.ignored) continue;
    const float most = largest(x, of.classes);
    const double above = std::log(sum_of_exponentials(x, of.classes, most));
    log_sums[2 * row] = most;
    log_sums[2 * row + 1] = static_cast<float>(above);
    losses[row] = static_cast<double>(most) + above - (1 - of.smoothing) * static_cast<double>(x[of.expected[row]]);
    if (of.smoothing > 0) losses[row] -= of.smoothing / static_cast<double>(of.classes) * sum_of(x, of.classes);
  }
}

DDL_CLONES void cross_entropy_gradient(const CrossEntropy& of, std::int64_t first, std::int64_t last, const float* log_sums, float scale, float* gradient) {
  const auto classes = of.classes;
  const auto even = static_cast<float>(static_cast<double>(scale) * of.smoothing / static_cast<double>(classes));
  for (auto row = first; row < last; ++row) {
    const float* const __restrict x = of.logits + row * classes;
    float* const __restrict to = gradient + row * classes;
    if (of.expected[row] == of.ignored) {
      std::fill(to, to + classes, 0.0F);
      continue;
    }
    const float most = log_sums[2 * row], above = log_sums[2 * row + 1];
    for (std::int64_t c = 0; c < classes; ++c) to[c] = scale * exponential((x[c] - most) - above) - even;
    to[of.expected[row]] -= static_cast<float>(static_cast<double>(scale) * (1 - of.smoothing));
  }
}

}  // namespace ddl
