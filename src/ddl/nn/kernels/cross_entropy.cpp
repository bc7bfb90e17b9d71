#include "ddl/nn/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ddl/core/clones.h"
#include "ddl/nn/kernels/exponential.h"
#include "ddl/nn/kernels/widen.h"

namespace ddl {
namespace {

constexpr std::int64_t kLanes = 16;  // partial sums, each of every 16th element

constexpr std::int64_t kAtOnce = 1024;  // of what is narrow: what is widened stays in the first cache

/// Calls body(wide elements, how many) for a row's elements in order; all but the last time for a multiple of kLanes.
template <typename T, typename F>
DDL_INLINE void for_chunks(const T* x, std::int64_t n, F&& body) {
  if constexpr (std::is_same_v<T, float>) {
    body(x, n);
  } else {
    float own[kAtOnce];
    for (std::int64_t i = 0; i < n; i += kAtOnce) {
      const auto some = std::min(kAtOnce, n - i);
      body(widened(x + i, some, own), some);
    }
  }
}

template <typename T>
DDL_INLINE float largest(const T* row, std::int64_t count) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, static_cast<float>(row[0]));
  for_chunks(row, count, [&](const float* x, std::int64_t n) __attribute__((always_inline)) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
    for (; i < n; ++i) lanes[0] = std::max(lanes[0], x[i]);
  });
  return *std::max_element(lanes, lanes + kLanes);
}

template <typename T>
DDL_INLINE double sum_of_exponentials(const T* row, std::int64_t count, float from) {
  float lanes[kLanes] = {};
  for_chunks(row, count, [&](const float* x, std::int64_t n) __attribute__((always_inline)) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += exponential(x[i + lane] - from);
    for (std::int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += exponential(x[i] - from);
  });
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

template <typename T>
DDL_INLINE double sum_of(const T* row, std::int64_t count) {
  double lanes[kLanes] = {};
  for_chunks(row, count, [&](const float* x, std::int64_t n) __attribute__((always_inline)) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(x[i + lane]);
    for (std::int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += static_cast<double>(x[i]);
  });
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <typename T>
DDL_INLINE void losses_of_rows(const CrossEntropy<T>& of, std::int64_t first, std::int64_t last, float* log_sums, double* losses) {
  for (auto row = first; row < last; ++row) {
    const T* const x = of.logits + row * of.classes;
    losses[row] = 0;
    if (of.expected[row] == of.ignored) continue;
    const float most = largest(x, of.classes);
    const double above = std::log(sum_of_exponentials(x, of.classes, most));
    log_sums[2 * row] = most;
    log_sums[2 * row + 1] = static_cast<float>(above);
    losses[row] = static_cast<double>(most) + above - (1 - of.smoothing) * static_cast<double>(static_cast<float>(x[of.expected[row]]));
    if (of.smoothing > 0) losses[row] -= of.smoothing / static_cast<double>(of.classes) * sum_of(x, of.classes);
  }
}

template <typename T>
DDL_INLINE void gradient_of_rows(const CrossEntropy<T>& of, std::int64_t first, std::int64_t last, const float* log_sums, float scale, T* gradient) {
  const auto classes = of.classes;
  const auto even = static_cast<float>(static_cast<double>(scale) * of.smoothing / static_cast<double>(classes));
  const auto right = static_cast<float>(static_cast<double>(scale) * (1 - of.smoothing));
  const bool narrow = !std::is_same_v<T, float>;
  for (auto row = first; row < last; ++row) {
    const T* const x = of.logits + row * classes;
    T* const to = gradient + row * classes;
    if (of.expected[row] == of.ignored) {
      std::fill(to, to + classes, T(0));
      continue;
    }
    const float most = log_sums[2 * row], above = log_sums[2 * row + 1];
    [[maybe_unused]] float seen[kAtOnce], made[kAtOnce];
    for (std::int64_t begin = 0; begin < classes; begin += kAtOnce) {
      const auto some = std::min(kAtOnce, classes - begin);
      const float* const __restrict from = widened(x + begin, some, seen);
      float* const __restrict put_to = place_of(to + begin, made);
      for (std::int64_t c = 0; c < some; ++c) put_to[c] = scale * exponential((from[c] - most) - above) - even;
      if (const auto at = of.expected[row] - begin; at >= 0 && at < some) put_to[at] -= right;
      if (narrow) put(made, some, to + begin);
    }
  }
}

}  // namespace

DDL_CLONES void cross_entropy_rows(const CrossEntropy<float>& of, std::int64_t first, std::int64_t last, float* log_sums, double* losses) { losses_of_rows(of, first, last, log_sums, losses); }
DDL_CLONES void cross_entropy_rows(const CrossEntropy<Bf16>& of, std::int64_t first, std::int64_t last, float* log_sums, double* losses) { losses_of_rows(of, first, last, log_sums, losses); }
DDL_CLONES void cross_entropy_gradient(const CrossEntropy<float>& of, std::int64_t first, std::int64_t last, const float* log_sums, float scale, float* gradient) {
  gradient_of_rows(of, first, last, log_sums, scale, gradient);
}
DDL_CLONES void cross_entropy_gradient(const CrossEntropy<Bf16>& of, std::int64_t first, std::int64_t last, const float* log_sums, float scale, Bf16* gradient) {
  gradient_of_rows(of, first, last, log_sums, scale, gradient);
}

}  // namespace ddl
