#include "ddl/nn/kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ddl/core/clones.h"
#include "ddl/nn/kernels/exponential.h"

namespace ddl {
namespace {

constexpr std::int64_t kLanes = 16;  // partial results, each of every 16th key
constexpr float kNone = -std::numeric_limits<float>::infinity();

DDL_INLINE std::int64_t seen(const ScoreRows& rows, std::int64_t query) { return rows.causal ? std::min(rows.keys, rows.first + query + 1) : rows.keys; }

template <bool kHides>
DDL_INLINE float largest(const float* __restrict x, const float* __restrict hidden, std::int64_t n, float scale) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, kNone);
  const auto one = [&](std::int64_t i, std::int64_t lane) __attribute__((always_inline)) {
    const float value = kHides ? x[i] * scale + hidden[i] : x[i] * scale;
    lanes[lane] = value > lanes[lane] ? value : lanes[lane];
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) one(i + lane, lane);
  for (std::int64_t lane = 0; i < n; ++i, ++lane) one(i, lane);
  return *std::max_element(lanes, lanes + kLanes);
}

/// Exponentials of what is left of scores, 0 of what is hidden; their sum.
template <bool kHides>
DDL_INLINE float exponentials(float* __restrict x, const float* __restrict hidden, std::int64_t n, float scale, float from) {
  float lanes[kLanes] = {};
  const auto one = [&](std::int64_t i, std::int64_t lane) __attribute__((always_inline)) {
    float e = exponential(x[i] * scale - from);
    if (kHides) e = hidden[i] < 0 ? 0.0F : e;
    x[i] = e;
    lanes[lane] += e;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) one(i + lane, lane);
  for (std::int64_t lane = 0; i < n; ++i, ++lane) one(i, lane);
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return static_cast<float>(sum);
}

template <bool kHides>
DDL_INLINE void soften(const ScoreRows& given, float* scores, float* log_sums, std::int64_t apart, float* inverse) {
  const ScoreRows rows = given;
  for (std::int64_t h = 0; h < rows.heads; ++h)
    for (std::int64_t q = 0; q < rows.queries; ++q) {
      float* const row = scores + (h * rows.queries + q) * rows.keys;
      const auto count = seen(rows, q);
      const float most = largest<kHides>(row, rows.hidden, count, rows.scale);
      const bool none = most == kNone;
      const float sum = exponentials<kHides>(row, rows.hidden, count, rows.scale, none ? 0.0F : most);
      std::fill(row + count, row + rows.keys, 0.0F);
      log_sums[h * apart + q] = none ? 0.0F : most + std::log(sum);
      inverse[h * rows.queries + q] = none ? 0.0F : 1.0F / sum;
    }
}

DDL_INLINE float product(const float* __restrict x, const float* __restrict y, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane] * y[i + lane];
  for (std::int64_t lane = 0; i < n; ++i, ++lane) lanes[lane] += x[i] * y[i];
  double sum = 0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return static_cast<float>(sum);
}

template <bool kHides>
DDL_INLINE void back(const ScoreRows& given, const float* log_sums, std::int64_t apart, float* scores, float* gradients) {
  const ScoreRows rows = given;
  for (std::int64_t h = 0; h < rows.heads; ++h)
    for (std::int64_t q = 0; q < rows.queries; ++q) {
      const auto at = (h * rows.queries + q) * rows.keys;
      float *const __restrict row = scores + at, *const __restrict gradient = gradients + at;
      const auto count = seen(rows, q);
      exponentials<kHides>(row, rows.hidden, count, rows.scale, log_sums[h * apart + q]);
      const float all = product(row, gradient, count);
      for (std::int64_t k = 0; k < count; ++k) gradient[k] = row[k] * (gradient[k] - all) * rows.scale;
      std::fill(row + count, row + rows.keys, 0.0F);
      std::fill(gradient + count, gradient + rows.keys, 0.0F);
    }
}

}  // namespace

DDL_CLONES void soften_scores(const ScoreRows& rows, float* scores, float* log_sums, std::int64_t apart, float* inverse) {
  rows.hidden != nullptr ? soften<true>(rows, scores, log_sums, apart, inverse) : soften<false>(rows, scores, log_sums, apart, inverse);
}

DDL_CLONES void soften_backward(const ScoreRows& rows, const float* log_sums, std::int64_t apart, float* scores, float* gradients) {
  rows.hidden != nullptr ? back<true>(rows, log_sums, apart, scores, gradients) : back<false>(rows, log_sums, apart, scores, gradients);
}

}  // namespace ddl
