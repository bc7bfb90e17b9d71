#include "ddl/nn/kernels/batch_norm.h"

#include <algorithm>

#include "ddl/core/clones.h"
#include "ddl/nn/kernels/rows.h"

namespace ddl {
namespace {

/// Of `width` channels, at most kColumnsTogether. Chunks of rows, which are read twice, are put together as Chan, Golub & LeVeque, COMPSTAT 1982.
template <typename T>
DDL_INLINE void moments(const T* __restrict maps, std::int64_t rows, std::int64_t channels, std::int64_t width, double* __restrict mean, double* __restrict squares) {
  using W = Wide<T>;
  for (std::int64_t c = 0; c < width; ++c) mean[c] = squares[c] = 0;
  W sum[kColumnsTogether], centre[kColumnsTogether];
  for (std::int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    const auto end = std::min(rows, begin + kRowsAtOnce);
    const auto count = static_cast<double>(end - begin), before = static_cast<double>(begin);
    for (std::int64_t c = 0; c < width; ++c) sum[c] = 0;
    for (auto r = begin; r < end; ++r)
      for_blocks_of(width, [&](std::int64_t at, std::int64_t n) __attribute__((always_inline)) {
        const T* const __restrict row = maps + r * channels + at;
        W* const __restrict sums = sum + at;
        for (std::int64_t c = 0; c < n; ++c) sums[c] += row[c];
      });
    for (std::int64_t c = 0; c < width; ++c) {
      centre[c] = static_cast<W>(static_cast<double>(sum[c]) / count);
      sum[c] = 0;
    }
    for (auto r = begin; r < end; ++r)
      for_blocks_of(width, [&](std::int64_t at, std::int64_t n) __attribute__((always_inline)) {
        const T* const __restrict row = maps + r * channels + at;
        const W* const __restrict centres = centre + at;
        W* const __restrict sums = sum + at;
        for (std::int64_t c = 0; c < n; ++c) {
          const W deviation = row[c] - centres[c];
          sums[c] += deviation * deviation;
        }
      });
    for (std::int64_t c = 0; c < width; ++c) {
      const double apart = static_cast<double>(centre[c]) - mean[c], share = count / (before + count);
      mean[c] += apart * share;
      squares[c] += static_cast<double>(sum[c]) + apart * apart * before * share;
    }
  }
}

template <typename T>
DDL_INLINE void all_moments(const T* maps, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, double* mean, double* squares) {
  for (auto c = first; c < last; c += kColumnsTogether) moments(maps + c, rows, channels, std::min(kColumnsTogether, last - c), mean + c, squares + c);
}

template <bool kAdds, bool kActivates, typename T>
DDL_INLINE void normalise(const T* __restrict maps, T* __restrict out, std::int64_t channels, std::int64_t first, std::int64_t last, const Normalise<T>& how) {
  using W = Wide<T>;
  const W *const __restrict factor = how.scales.factor, *const __restrict shift = how.scales.shift;
  const T* const __restrict added = how.added;
  const W most = how.most;
  for (auto at = first * channels; at < last * channels; at += channels)
    for (std::int64_t c = 0; c < channels; ++c) {
      W value = maps[at + c] * factor[c] + shift[c];
      if (kAdds) value += added[at + c];
      if (kActivates) {
        value = value < W{0} ? W{0} : value;
        value = value > most ? most : value;
      }
      out[at + c] = value;
    }
}

template <typename T>
DDL_INLINE void normalise_any(const T* maps, T* out, std::int64_t channels, std::int64_t first, std::int64_t last, const Normalise<T>& how) {
  if (how.added != nullptr)
    how.activates ? normalise<true, true>(maps, out, channels, first, last, how) : normalise<true, false>(maps, out, channels, first, last, how);
  else
    how.activates ? normalise<false, true>(maps, out, channels, first, last, how) : normalise<false, false>(maps, out, channels, first, last, how);
}

enum class Gate { none, by_output, by_maps };

/// What of a gradient counts, at element `i` of channel `c`.
template <Gate kGate, typename T>
DDL_INLINE Wide<T> counting(const NormaliseBackward<T>& how, std::int64_t i, std::int64_t c) {
  using W = Wide<T>;
  const W gradient = how.gradient[i];
  if (kGate == Gate::none) return gradient;
  const W value = kGate == Gate::by_output ? W{how.out[i]} : how.maps[i] * how.scales.factor[c] + how.scales.shift[c];
  // Of NaN it passes on, as ATen's does.
  return (value <= W{0}) | (value >= how.most) ? W{0} : gradient;
}

/// Of `width` channels from `first` on, at most kColumnsTogether.
template <Gate kGate, bool kPasses, typename T>
DDL_INLINE void sums(const NormaliseBackward<T>& how, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t width, const Wide<T>* __restrict mean, T* __restrict passed,
                     double* __restrict sum, double* __restrict product) {
  using W = Wide<T>;
  for (std::int64_t c = 0; c < width; ++c) sum[c] = product[c] = 0;
  W one[kColumnsTogether], two[kColumnsTogether];
  for (std::int64_t begin = 0; begin < rows; begin += kRowsAtOnce) {
    for (std::int64_t c = 0; c < width; ++c) one[c] = two[c] = 0;
    for (auto r = begin; r < std::min(rows, begin + kRowsAtOnce); ++r)
      for_blocks_of(width, [&](std::int64_t at, std::int64_t n) __attribute__((always_inline)) {
        W *const __restrict ones = one + at, *const __restrict twos = two + at;
        for (std::int64_t c = 0; c < n; ++c) {
          const auto channel = first + at + c, i = r * channels + channel;
          const W gradient = counting<kGate>(how, i, channel);
          if (kPasses) passed[i] = gradient;
          ones[c] += gradient;
          twos[c] += gradient * (how.maps[i] - mean[channel]);
        }
      });
    for (std::int64_t c = 0; c < width; ++c) {
      sum[c] += static_cast<double>(one[c]);
      product[c] += static_cast<double>(two[c]);
    }
  }
}

template <Gate kGate, bool kPasses, typename T>
DDL_INLINE void all_sums(const NormaliseBackward<T>& given, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, const Wide<T>* mean, T* passed, double* sum, double* product) {
  const NormaliseBackward<T> how = given;
  for (auto c = first; c < last; c += kColumnsTogether) sums<kGate, kPasses>(how, rows, channels, c, std::min(kColumnsTogether, last - c), mean, passed, sum + c, product + c);
}

template <typename T>
DDL_INLINE void any_sums(const NormaliseBackward<T>& how, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, const Wide<T>* mean, T* passed, double* sum, double* product) {
  // Who passes on something of its own has its output: the maps alone do not say what it was.
  if (passed != nullptr)
    all_sums<Gate::by_output, true>(how, rows, channels, first, last, mean, passed, sum, product);
  else if (!how.activates)
    all_sums<Gate::none, false>(how, rows, channels, first, last, mean, passed, sum, product);
  else
    how.out != nullptr ? all_sums<Gate::by_output, false>(how, rows, channels, first, last, mean, passed, sum, product) : all_sums<Gate::by_maps, false>(how, rows, channels, first, last, mean, passed, sum, product);
}

template <Gate kGate, typename T>
DDL_INLINE void project(const NormaliseBackward<T>& given, std::int64_t channels, std::int64_t first, std::int64_t last, const Projection<T>& projection, T* __restrict of_maps) {
  const NormaliseBackward<T> how = given;
  const Wide<T> *const __restrict mean = projection.mean, *const __restrict offset = projection.offset, *const __restrict slope = projection.slope, *const __restrict factor = how.scales.factor;
  for (auto at = first * channels; at < last * channels; at += channels)
    for (std::int64_t c = 0; c < channels; ++c) of_maps[at + c] = factor[c] * (counting<kGate>(how, at + c, c) - offset[c] - (how.maps[at + c] - mean[c]) * slope[c]);
}

template <typename T>
DDL_INLINE void project_any(const NormaliseBackward<T>& how, std::int64_t channels, std::int64_t first, std::int64_t last, const Projection<T>& projection, T* of_maps) {
  if (!how.activates)
    project<Gate::none>(how, channels, first, last, projection, of_maps);
  else
    how.out != nullptr ? project<Gate::by_output>(how, channels, first, last, projection, of_maps) : project<Gate::by_maps>(how, channels, first, last, projection, of_maps);
}

}  // namespace

DDL_CLONES void channel_moments(const float* maps, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, double* mean, double* squares) {
  all_moments(maps, rows, channels, first, last, mean, squares);
}
DDL_CLONES void channel_moments(const double* maps, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, double* mean, double* squares) {
  all_moments(maps, rows, channels, first, last, mean, squares);
}
DDL_CLONES void channel_moments(const Bf16* maps, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, double* mean, double* squares) {
  all_moments(maps, rows, channels, first, last, mean, squares);
}
DDL_CLONES void normalise_rows(const float* maps, float* out, std::int64_t channels, std::int64_t first, std::int64_t last, const Normalise<float>& how) {
  normalise_any(maps, out, channels, first, last, how);
}
DDL_CLONES void normalise_rows(const double* maps, double* out, std::int64_t channels, std::int64_t first, std::int64_t last, const Normalise<double>& how) {
  normalise_any(maps, out, channels, first, last, how);
}
DDL_CLONES void normalise_rows(const Bf16* maps, Bf16* out, std::int64_t channels, std::int64_t first, std::int64_t last, const Normalise<Bf16>& how) {
  normalise_any(maps, out, channels, first, last, how);
}
DDL_CLONES void gradient_moments(const NormaliseBackward<float>& how, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, const float* mean, float* passed, double* sum,
                                 double* product) {
  any_sums(how, rows, channels, first, last, mean, passed, sum, product);
}
DDL_CLONES void gradient_moments(const NormaliseBackward<double>& how, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, const double* mean, double* passed, double* sum,
                                 double* product) {
  any_sums(how, rows, channels, first, last, mean, passed, sum, product);
}
DDL_CLONES void gradient_moments(const NormaliseBackward<Bf16>& how, std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t last, const float* mean, Bf16* passed, double* sum,
                                 double* product) {
  any_sums(how, rows, channels, first, last, mean, passed, sum, product);
}
DDL_CLONES void project_gradient(const NormaliseBackward<float>& how, std::int64_t channels, std::int64_t first, std::int64_t last, const Projection<float>& projection, float* of_maps) {
  project_any(how, channels, first, last, projection, of_maps);
}
DDL_CLONES void project_gradient(const NormaliseBackward<double>& how, std::int64_t channels, std::int64_t first, std::int64_t last, const Projection<double>& projection, double* of_maps) {
  project_any(how, channels, first, last, projection, of_maps);
}
DDL_CLONES void project_gradient(const NormaliseBackward<Bf16>& how, std::int64_t channels, std::int64_t first, std::int64_t last, const Projection<Bf16>& projection, Bf16* of_maps) {
  project_any(how, channels, first, last, projection, of_maps);
}

}  // namespace ddl
