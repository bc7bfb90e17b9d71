#include "ddl/nn/kernels/max_pool.h"

#include <algorithm>
#include <limits>

#include "ddl/core/clones.h"

namespace ddl {
namespace {

/// Elements that are looked at together: neighbours in memory, each of a window of its own.
constexpr std::int64_t kAtOnce = 64;

template <typename T>
struct Most {
  T value[kAtOnce];
  std::int32_t place[kAtOnce];

  DDL_INLINE void clear() {
    for (std::int64_t i = 0; i < kAtOnce; ++i) value[i] = -std::numeric_limits<T>::infinity(), place[i] = 0;
  }

  /// Each of its window's next place, `step` elements apart.
  DDL_INLINE void see(const T* __restrict from, std::int64_t begin, std::int64_t end, std::int64_t step, std::int32_t at) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T seen = from[(i - begin) * step];
      const bool more = (seen > value[i]) | (seen != seen);
      value[i] = more ? seen : value[i];
      place[i] = more ? at : place[i];
    }
  }

  DDL_INLINE void put(std::int64_t n, bool rectifies, T* __restrict out, std::uint8_t* __restrict where) {
    if (rectifies)
      for (std::int64_t i = 0; i < n; ++i) {
        const bool less = value[i] <= T{0};
        value[i] = less ? T{0} : value[i];
        place[i] = less ? kNowhere : place[i];
      }
    for (std::int64_t i = 0; i < n; ++i) out[i] = value[i];
    if (where != nullptr)
      for (std::int64_t i = 0; i < n; ++i) where[i] = static_cast<std::uint8_t>(place[i]);
  }
};

template <typename T>
DDL_INLINE void pool_pixels(const Windows& w, const T* maps, bool rectifies, T* out, std::uint8_t* where) {
  Most<T> most;
  for (std::int64_t n = 0; n < w.samples; ++n)
    for (std::int64_t i = 0; i < w.places_high; ++i)
      for (std::int64_t j = 0; j < w.places_wide; ++j) {
        const auto top = i * w.stride_height - w.padding_height, left = j * w.stride_width - w.padding_width;
        const auto to = ((n * w.places_high + i) * w.places_wide + j) * w.channels;
        for (std::int64_t c = 0; c < w.channels; c += kAtOnce) {
          const auto some = std::min(kAtOnce, w.channels - c);
          most.clear();
          for (std::int64_t ky = 0; ky < w.kernel_height; ++ky) {
            const auto y = top + ky;
            if (y < 0 || y >= w.height) continue;
            for (std::int64_t kx = 0; kx < w.kernel_width; ++kx) {
              const auto x = left + kx;
              if (x < 0 || x >= w.width) continue;
              most.see(maps + ((n * w.height + y) * w.width + x) * w.channels + c, 0, some, 1, static_cast<std::int32_t>(ky * w.kernel_width + kx));
            }
          }
          most.put(some, rectifies, out + to + c, where == nullptr ? nullptr : where + to + c);
        }
      }
}

/// Where no two windows overlap each element is written once.
template <typename T>
DDL_INLINE void pool_pixels_apart_backward(const Windows& w, const T* gradient, const std::uint8_t* where, T* of_maps) {
  const auto channels = w.channels;
  const bool cover = w.stride_height == w.kernel_height && w.stride_width == w.kernel_width && w.places_high * w.stride_height - w.padding_height >= w.height &&
                     w.places_wide * w.stride_width - w.padding_width >= w.width;
  if (!cover) std::fill(of_maps, of_maps + w.samples * w.height * w.width * channels, T{0});
  for (std::int64_t n = 0; n < w.samples; ++n)
    for (std::int64_t i = 0; i < w.places_high; ++i)
      for (std::int64_t j = 0; j < w.places_wide; ++j, gradient += channels, where += channels)
        for (std::int64_t ky = 0; ky < w.kernel_height; ++ky) {
          const auto y = i * w.stride_height - w.padding_height + ky;
          if (y < 0 || y >= w.height) continue;
          for (std::int64_t kx = 0; kx < w.kernel_width; ++kx) {
            const auto x = j * w.stride_width - w.padding_width + kx;
            if (x < 0 || x >= w.width) continue;
            T* const __restrict to = of_maps + ((n * w.height + y) * w.width + x) * channels;
            const std::int32_t here = static_cast<std::int32_t>(ky * w.kernel_width + kx);
            for (std::int64_t c = 0; c < channels; ++c) to[c] = where[c] == here ? gradient[c] : T{0};
          }
        }
}

/// Calls f(place, its number in the window) for each window that sees row or column `at`.
template <typename F>
DDL_INLINE void for_windows(std::int64_t at, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t places, F&& f) {
  for (std::int64_t k = (at + padding) % stride; k < kernel; k += stride) {
    const auto place = (at + padding - k) / stride;
    if (at + padding >= k && place < places) f(place, k);
  }
}

template <typename T>
DDL_INLINE void pool_pixels_backward(const Windows& w, const T* gradient, const std::uint8_t* where, T* __restrict of_maps) {
  const auto channels = w.channels;
  if (w.stride_height >= w.kernel_height && w.stride_width >= w.kernel_width) {
    pool_pixels_apart_backward(w, gradient, where, of_maps);
    return;
  }
  for (std::int64_t n = 0; n < w.samples; ++n)
    for (std::int64_t y = 0; y < w.height; ++y)
      for (std::int64_t x = 0; x < w.width; ++x, of_maps += channels) {
        bool first = true;
        for_windows(y, w.kernel_height, w.stride_height, w.padding_height, w.places_high, [&](std::int64_t i, std::int64_t ky) __attribute__((always_inline)) {
          for_windows(x, w.kernel_width, w.stride_width, w.padding_width, w.places_wide, [&](std::int64_t j, std::int64_t kx) __attribute__((always_inline)) {
            const auto from = ((n * w.places_high + i) * w.places_wide + j) * channels;
            const T* const __restrict given = gradient + from;
            const std::uint8_t* const __restrict was = where + from;
            const std::int32_t here = static_cast<std::int32_t>(ky * w.kernel_width + kx);
            if (first)
              for (std::int64_t c = 0; c < channels; ++c) of_maps[c] = was[c] == here ? given[c] : T{0};
            else
              for (std::int64_t c = 0; c < channels; ++c) of_maps[c] += was[c] == here ? given[c] : T{0};
            first = false;
          });
        });
        if (first) std::fill(of_maps, of_maps + channels, T{0});
      }
}

/// Windows of a row whose column kx is on the map.
struct Columns {
  std::int64_t begin, end;
};

DDL_INLINE Columns columns_of(const Windows& w, std::int64_t kx, std::int64_t first, std::int64_t last) {
  const auto off = w.padding_width - kx;  // what lies left of the map, of the first window
  const auto begin = off <= 0 ? 0 : (off + w.stride_width - 1) / w.stride_width;
  const auto end = w.width + off <= 0 ? 0 : (w.width + off - 1) / w.stride_width + 1;
  return {std::max(begin, first), std::min(end, last)};
}

/// `stride`: of columns; a number that the compiler knows makes vectors.
template <typename T>
DDL_INLINE void pool_planes(const Windows& w, std::int64_t stride, const T* maps, bool rectifies, T* out, std::uint8_t* where) {
  Most<T> most;
  for (std::int64_t plane = 0; plane < w.samples * w.channels; ++plane, maps += w.height * w.width)
    for (std::int64_t i = 0; i < w.places_high; ++i)
      for (std::int64_t j = 0; j < w.places_wide; j += kAtOnce) {
        const auto last = std::min(w.places_wide, j + kAtOnce);
        most.clear();
        for (std::int64_t ky = 0; ky < w.kernel_height; ++ky) {
          const auto y = i * w.stride_height - w.padding_height + ky;
          if (y < 0 || y >= w.height) continue;
          for (std::int64_t kx = 0; kx < w.kernel_width; ++kx) {
            const auto [begin, end] = columns_of(w, kx, j, last);
            if (begin < end) most.see(maps + y * w.width + begin * stride - w.padding_width + kx, begin - j, end - j, stride, static_cast<std::int32_t>(ky * w.kernel_width + kx));
          }
        }
        const auto to = (plane * w.places_high + i) * w.places_wide + j;
        most.put(last - j, rectifies, out + to, where == nullptr ? nullptr : where + to);
      }
}

template <typename T>
DDL_INLINE void pool_planes_backward(const Windows& w, std::int64_t stride, const T* gradient, const std::uint8_t* where, T* __restrict of_maps) {
  std::fill(of_maps, of_maps + w.samples * w.channels * w.height * w.width, T{0});
  for (std::int64_t plane = 0; plane < w.samples * w.channels; ++plane, of_maps += w.height * w.width)
    for (std::int64_t i = 0; i < w.places_high; ++i, gradient += w.places_wide, where += w.places_wide)
      for (std::int64_t ky = 0; ky < w.kernel_height; ++ky) {
        const auto y = i * w.stride_height - w.padding_height + ky;
        if (y < 0 || y >= w.height) continue;
        for (std::int64_t kx = 0; kx < w.kernel_width; ++kx) {
          const auto [begin, end] = columns_of(w, kx, 0, w.places_wide);
          const std::int32_t here = static_cast<std::int32_t>(ky * w.kernel_width + kx);
          T* const __restrict to = of_maps + y * w.width - w.padding_width + kx;
          for (std::int64_t j = begin; j < end; ++j) to[j * stride] += where[j] == here ? gradient[j] : T{0};
        }
      }
}

template <typename F>
DDL_INLINE void with_stride(const Windows& w, F&& f) {
  if (w.stride_width == 2)
    f(std::int64_t{2});
  else
    f(w.stride_width);
}

}  // namespace

DDL_CLONES void max_pool_pixels(const Windows& w, const float* maps, bool rectifies, float* out, std::uint8_t* where) { pool_pixels(w, maps, rectifies, out, where); }
DDL_CLONES void max_pool_pixels(const Windows& w, const double* maps, bool rectifies, double* out, std::uint8_t* where) { pool_pixels(w, maps, rectifies, out, where); }
DDL_CLONES void max_pool_pixels_backward(const Windows& w, const float* gradient, const std::uint8_t* where, float* of_maps) { pool_pixels_backward(w, gradient, where, of_maps); }
DDL_CLONES void max_pool_pixels_backward(const Windows& w, const double* gradient, const std::uint8_t* where, double* of_maps) { pool_pixels_backward(w, gradient, where, of_maps); }

DDL_CLONES void max_pool_planes(const Windows& w, const float* maps, bool rectifies, float* out, std::uint8_t* where) {
  with_stride(w, [&](std::int64_t stride) __attribute__((always_inline)) { pool_planes(w, stride, maps, rectifies, out, where); });
}
DDL_CLONES void max_pool_planes(const Windows& w, const double* maps, bool rectifies, double* out, std::uint8_t* where) {
  with_stride(w, [&](std::int64_t stride) __attribute__((always_inline)) { pool_planes(w, stride, maps, rectifies, out, where); });
}
DDL_CLONES void max_pool_planes_backward(const Windows& w, const float* gradient, const std::uint8_t* where, float* of_maps) {
  with_stride(w, [&](std::int64_t stride) __attribute__((always_inline)) { pool_planes_backward(w, stride, gradient, where, of_maps); });
}
DDL_CLONES void max_pool_planes_backward(const Windows& w, const double* gradient, const std::uint8_t* where, double* of_maps) {
  with_stride(w, [&](std::int64_t stride) __attribute__((always_inline)) { pool_planes_backward(w, stride, gradient, where, of_maps); });
}

}  // namespace ddl
