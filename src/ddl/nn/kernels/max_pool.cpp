#include "ddl/nn/kernels/max_pool.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "ddl/core/clones.h"

namespace ddl {
namespace {

/// Elements that are looked at together: neighbours in memory, each of a window of its own.
constexpr std::int64_t kAtOnce = 32;

template <typename T>
struct Most {
  using W = Wide<T>;
  W value[kAtOnce];
  std::int32_t place[kAtOnce];

  /// `first`: the place that counts where all are minus infinity.
  DDL_INLINE void clear(std::int64_t n, std::int32_t first) {
    for (std::int64_t i = 0; i < n; ++i) value[i] = -std::numeric_limits<W>::infinity(), place[i] = first;
  }

  /// Each of its window's next place.
  DDL_INLINE void see(const T* __restrict from, std::int64_t n, std::int32_t at) {
    for (std::int64_t i = 0; i < n; ++i) {
      const W seen = from[i];
      const bool more = (seen > value[i]) | (seen != seen);
      value[i] = more ? seen : value[i];
      place[i] = more ? at : place[i];
    }
  }

  DDL_INLINE void put(std::int64_t n, bool rectifies, T* __restrict out, std::uint8_t* __restrict where) {
    if (rectifies)
      for (std::int64_t i = 0; i < n; ++i) {
        const bool less = value[i] <= W{0};
        value[i] = less ? W{0} : value[i];
        place[i] = less ? kNowhere : place[i];
      }
    for (std::int64_t i = 0; i < n; ++i) out[i] = value[i];
    if (where != nullptr)
      for (std::int64_t i = 0; i < n; ++i) where[i] = static_cast<std::uint8_t>(place[i]);
  }
};

/// What of a window lies on the map, along one dimension.
struct Seen {
  std::int64_t begin, end;
};

DDL_INLINE Seen seen_of(std::int64_t at, std::int64_t kernel, std::int64_t size) { return {std::max<std::int64_t>(0, -at), std::min(kernel, size - at)}; }

/// Channels [c, c + some) of one window.
template <typename T>
DDL_INLINE void pool_channels(const Windows& w, const T* map, const Seen& rows, const Seen& columns, std::int64_t some, bool rectifies, T* out, std::uint8_t* where) {
  Most<T> most;
  most.clear(some, static_cast<std::int32_t>(rows.begin * w.kernel_width + columns.begin));
  for (std::int64_t ky = rows.begin; ky < rows.end; ++ky)
    for (std::int64_t kx = columns.begin; kx < columns.end; ++kx) most.see(map + (ky * w.width + kx) * w.channels, some, static_cast<std::int32_t>(ky * w.kernel_width + kx));
  most.put(some, rectifies, out, where);
}

template <typename T>
DDL_INLINE void pool_pixels(const Windows& w, const T* maps, bool rectifies, T* out, std::uint8_t* where) {
  for (std::int64_t n = 0; n < w.samples; ++n)
    for (std::int64_t i = 0; i < w.places_high; ++i)
      for (std::int64_t j = 0; j < w.places_wide; ++j) {
        const auto top = i * w.stride_height - w.padding_height, left = j * w.stride_width - w.padding_width;
        const auto rows = seen_of(top, w.kernel_height, w.height), columns = seen_of(left, w.kernel_width, w.width);
        const T* const map = maps + ((n * w.height + top) * w.width + left) * w.channels;
        for (std::int64_t c = 0; c < w.channels; c += kAtOnce) {
          const auto to = ((n * w.places_high + i) * w.places_wide + j) * w.channels + c;
          auto* const at = where == nullptr ? nullptr : where + to;
          // Of a number that the compiler knows all stay in registers.
          if (const auto some = std::min(kAtOnce, w.channels - c); some == kAtOnce)
            pool_channels(w, map + c, rows, columns, kAtOnce, rectifies, out + to, at);
          else
            pool_channels(w, map + c, rows, columns, some, rectifies, out + to, at);
        }
      }
}

/// The gradient where the window's place was the most, else 0. Of 16 bits the bits: nothing is computed, and so it becomes vectors.
template <typename T>
DDL_INLINE void pick(const T* __restrict gradient, const std::uint8_t* __restrict where, std::int32_t here, std::int64_t channels, T* __restrict to) {
  if constexpr (std::is_same_v<T, Bf16>)
    for (std::int64_t c = 0; c < channels; ++c) to[c].bits = static_cast<std::uint16_t>(where[c] == here ? gradient[c].bits : 0);
  else
    for (std::int64_t c = 0; c < channels; ++c) to[c] = where[c] == here ? gradient[c] : T{0};
}

/// Where no two windows overlap each element is written once.
template <typename T>
DDL_INLINE void pool_pixels_apart_backward(const Windows& w, const T* gradient, const std::uint8_t* where, T* of_maps) {
  const auto channels = w.channels;
  const bool cover = w.stride_height == w.kernel_height && w.stride_width == w.kernel_width && w.places_high * w.stride_height - w.padding_height >= w.height &&
                     w.places_wide * w.stride_width - w.padding_width >= w.width;
  if (!cover) std::fill(of_maps, of_maps + w.samples * w.height * w.width * channels, T(0));
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
            pick(gradient, where, here, channels, to);
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
              pick(given, was, here, channels, of_maps);
            else
              for (std::int64_t c = 0; c < channels; ++c) of_maps[c] = of_maps[c] + (was[c] == here ? Wide<T>{given[c]} : Wide<T>{0});
            first = false;
          });
        });
        if (first) std::fill(of_maps, of_maps + channels, T(0));
      }
}

template <typename T>
DDL_INLINE void pool_planes(const Windows& w, const T* maps, bool rectifies, T* out, std::uint8_t* where) {
  for (std::int64_t plane = 0; plane < w.samples * w.channels; ++plane, maps += w.height * w.width)
    for (std::int64_t i = 0; i < w.places_high; ++i) {
      const auto top = i * w.stride_height - w.padding_height;
      const auto rows = seen_of(top, w.kernel_height, w.height);
      for (std::int64_t j = 0; j < w.places_wide; ++j) {
        const auto left = j * w.stride_width - w.padding_width;
        const auto columns = seen_of(left, w.kernel_width, w.width);
        using W = Wide<T>;
        W most = -std::numeric_limits<W>::infinity();
        std::int32_t place = static_cast<std::int32_t>(rows.begin * w.kernel_width + columns.begin);
        for (std::int64_t ky = rows.begin; ky < rows.end; ++ky)
          for (std::int64_t kx = columns.begin; kx < columns.end; ++kx) {
            const W seen = maps[(top + ky) * w.width + left + kx];
            if (seen > most || seen != seen) most = seen, place = static_cast<std::int32_t>(ky * w.kernel_width + kx);
          }
        const bool less = rectifies && most <= W{0};
        *out++ = less ? W{0} : most;
        if (where != nullptr) *where++ = less ? kNowhere : static_cast<std::uint8_t>(place);
      }
    }
}

/// So many windows of 2x2 side by side, of two rows: without a branch that depends on numbers.
template <std::int64_t some, typename T>
DDL_INLINE void pool_pairs(const T* __restrict above, const T* __restrict below, bool rectifies, T* __restrict out, std::uint8_t* __restrict where) {
  using W = Wide<T>;
  W most[some];
  std::int32_t place[some];
  for (std::int64_t k = 0; k < some; ++k) {
    const W a = above[2 * k], b = above[2 * k + 1], c = below[2 * k], d = below[2 * k + 1];
    const bool second = (b > a) | (b != b);
    W m = second ? b : a;
    std::int32_t at = second ? 1 : 0;
    const bool third = (c > m) | (c != c);
    m = third ? c : m;
    at = third ? 2 : at;
    const bool fourth = (d > m) | (d != d);
    m = fourth ? d : m;
    at = fourth ? 3 : at;
    const bool less = rectifies & (m <= W{0});
    most[k] = less ? W{0} : m;
    place[k] = less ? kNowhere : at;
  }
  for (std::int64_t k = 0; k < some; ++k) out[k] = most[k];
  if (where != nullptr)
    for (std::int64_t k = 0; k < some; ++k) where[k] = static_cast<std::uint8_t>(place[k]);
}

/// The same of rows that are shorter than that: windows of several rows are laid side by side first.
template <std::int64_t some, typename T>
DDL_INLINE void pool_short_planes_by_pairs(const Windows& w, const T* maps, bool rectifies, T* out, std::uint8_t* where) {
  const auto windows = w.places_high * w.places_wide;
  T above[2 * some] = {}, below[2 * some] = {}, most[some];
  std::uint8_t places[some];
  for (std::int64_t plane = 0; plane < w.samples * w.channels; ++plane, maps += w.height * w.width, out += windows) {
    const T* from = maps;
    for (std::int64_t first = 0, j = 0; first < windows; first += some) {
      const auto count = std::min(some, windows - first);
      for (std::int64_t k = 0; k < count; ++k) {
        for (std::int64_t x = 0; x < 2; ++x) above[2 * k + x] = from[2 * j + x], below[2 * k + x] = from[w.width + 2 * j + x];
        if (++j == w.places_wide) j = 0, from += 2 * w.width;
      }
      pool_pairs<some>(above, below, rectifies, most, places);
      for (std::int64_t k = 0; k < count; ++k) out[first + k] = most[k];
      if (where != nullptr)
        for (std::int64_t k = 0; k < count; ++k) where[first + k] = places[k];
    }
    if (where != nullptr) where += windows;
  }
}

/// The same of whole rows, in blocks of one size, of which the last begins before the one before it ends.
template <std::int64_t some, typename T>
DDL_INLINE void pool_planes_by_pairs(const Windows& w, const T* maps, bool rectifies, T* out, std::uint8_t* where) {
  for (std::int64_t plane = 0; plane < w.samples * w.channels; ++plane, maps += w.height * w.width)
    for (std::int64_t i = 0; i < w.places_high; ++i, out += w.places_wide) {
      const T* const above = maps + 2 * i * w.width;
      for (std::int64_t j = 0; j < w.places_wide; j += some) {
        const auto from = std::min(j, w.places_wide - some);
        pool_pairs<some>(above + 2 * from, above + w.width + 2 * from, rectifies, out + from, where == nullptr ? nullptr : where + from);
      }
      if (where != nullptr) where += w.places_wide;
    }
}

template <typename T>
DDL_INLINE void pool_planes_backward(const Windows& w, const T* gradient, const std::uint8_t* where, T* __restrict of_maps) {
  std::fill(of_maps, of_maps + w.samples * w.channels * w.height * w.width, T(0));
  std::int64_t offset[kPlacesOfAWindow + 1] = {};
  for (std::int64_t ky = 0; ky < w.kernel_height; ++ky)
    for (std::int64_t kx = 0; kx < w.kernel_width; ++kx) offset[ky * w.kernel_width + kx] = ky * w.width + kx;
  // Nothing goes nowhere, which is the corner of the window where that is on the map.
  const bool corner = w.padding_height == 0 && w.padding_width == 0;
  for (std::int64_t plane = 0; plane < w.samples * w.channels; ++plane, of_maps += w.height * w.width)
    for (std::int64_t i = 0; i < w.places_high; ++i) {
      T* to = of_maps + (i * w.stride_height - w.padding_height) * w.width - w.padding_width;
      for (std::int64_t j = 0; j < w.places_wide; ++j, to += w.stride_width, ++gradient, ++where)
        if (corner || *where != kNowhere) to[offset[*where]] = to[offset[*where]] + (*where != kNowhere ? Wide<T>{*gradient} : Wide<T>{0});
    }
}

template <typename T>
DDL_INLINE void choose_and_pool_planes(const Windows& w, const T* maps, bool rectifies, T* out, std::uint8_t* where) {
  const bool pairs = w.kernel_height == 2 && w.kernel_width == 2 && w.stride_height == 2 && w.stride_width == 2 && w.padding_height == 0 && w.padding_width == 0;
  if (pairs && w.places_wide >= 8)
    pool_planes_by_pairs<8>(w, maps, rectifies, out, where);
  else if (pairs)
    pool_short_planes_by_pairs<8>(w, maps, rectifies, out, where);
  else
    pool_planes(w, maps, rectifies, out, where);
}

}  // namespace

DDL_CLONES void max_pool_pixels(const Windows& w, const float* maps, bool rectifies, float* out, std::uint8_t* where) { pool_pixels(w, maps, rectifies, out, where); }
DDL_CLONES void max_pool_pixels(const Windows& w, const double* maps, bool rectifies, double* out, std::uint8_t* where) { pool_pixels(w, maps, rectifies, out, where); }
DDL_CLONES void max_pool_pixels(const Windows& w, const Bf16* maps, bool rectifies, Bf16* out, std::uint8_t* where) { pool_pixels(w, maps, rectifies, out, where); }
DDL_CLONES void max_pool_pixels_backward(const Windows& w, const float* gradient, const std::uint8_t* where, float* of_maps) { pool_pixels_backward(w, gradient, where, of_maps); }
DDL_CLONES void max_pool_pixels_backward(const Windows& w, const double* gradient, const std::uint8_t* where, double* of_maps) { pool_pixels_backward(w, gradient, where, of_maps); }
DDL_CLONES void max_pool_pixels_backward(const Windows& w, const Bf16* gradient, const std::uint8_t* where, Bf16* of_maps) { pool_pixels_backward(w, gradient, where, of_maps); }

DDL_CLONES void max_pool_planes(const Windows& w, const float* maps, bool rectifies, float* out, std::uint8_t* where) { choose_and_pool_planes(w, maps, rectifies, out, where); }
DDL_CLONES void max_pool_planes(const Windows& w, const double* maps, bool rectifies, double* out, std::uint8_t* where) { choose_and_pool_planes(w, maps, rectifies, out, where); }
DDL_CLONES void max_pool_planes(const Windows& w, const Bf16* maps, bool rectifies, Bf16* out, std::uint8_t* where) { choose_and_pool_planes(w, maps, rectifies, out, where); }
DDL_CLONES void max_pool_planes_backward(const Windows& w, const float* gradient, const std::uint8_t* where, float* of_maps) { pool_planes_backward(w, gradient, where, of_maps); }
DDL_CLONES void max_pool_planes_backward(const Windows& w, const double* gradient, const std::uint8_t* where, double* of_maps) { pool_planes_backward(w, gradient, where, of_maps); }
DDL_CLONES void max_pool_planes_backward(const Windows& w, const Bf16* gradient, const std::uint8_t* where, Bf16* of_maps) { pool_planes_backward(w, gradient, where, of_maps); }

}  // namespace ddl
