#include "ddl/nn/kernels/windows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "ddl/core/clones.h"

namespace ddl {
namespace {

template <typename T>
DDL_INLINE void fold(const Windows& w, const T* __restrict seen, T* __restrict maps) {
  const auto channels = w.channels, wide = w.seen();
  std::vector<Wide<T>> of_pixel(static_cast<std::size_t>(channels));
  auto* const __restrict sums = of_pixel.data();
  for (std::int64_t n = 0; n < w.samples; ++n)
    for (std::int64_t y = 0; y < w.height; ++y)
      for (std::int64_t x = 0; x < w.width; ++x, maps += channels) {
        bool first = true;
        for (std::int64_t ky = 0; ky < w.kernel_height; ++ky) {
          const auto row = y + w.padding_height - ky, at_row = row / w.stride_height;
          if (row < 0 || row % w.stride_height != 0 || at_row >= w.places_high) continue;
          for (std::int64_t kx = 0; kx < w.kernel_width; ++kx) {
            const auto column = x + w.padding_width - kx, at_column = column / w.stride_width;
            if (column < 0 || column % w.stride_width != 0 || at_column >= w.places_wide) continue;
            const T* const from = seen + ((n * w.places_high + at_row) * w.places_wide + at_column) * wide + (ky * w.kernel_width + kx) * channels;
            if (first)
              for (std::int64_t c = 0; c < channels; ++c) sums[c] = from[c];
            else
              for (std::int64_t c = 0; c < channels; ++c) sums[c] += from[c];
            first = false;
          }
        }
        if (first)
          std::fill(maps, maps + channels, T(0));
        else
          for (std::int64_t c = 0; c < channels; ++c) maps[c] = sums[c];
      }
}

}  // namespace

void unfold_windows(const Windows& w, std::size_t element_bytes, const void* maps, void* seen) {
  const auto pixel = static_cast<std::size_t>(w.channels) * element_bytes;
  const auto* const from = static_cast<const std::byte*>(maps);
  auto* to = static_cast<std::byte*>(seen);
  const auto put_zeros = [&](std::int64_t pixels) {
    std::memset(to, 0, static_cast<std::size_t>(pixels) * pixel);
    to += static_cast<std::size_t>(pixels) * pixel;
  };
  for (std::int64_t n = 0; n < w.samples; ++n)
    for (std::int64_t i = 0; i < w.places_high; ++i)
      for (std::int64_t j = 0; j < w.places_wide; ++j) {
        // Columns of the map that the window lies over: neighbours in memory.
        const auto left = j * w.stride_width - w.padding_width;
        const auto begin = std::clamp<std::int64_t>(left, 0, w.width), end = std::clamp<std::int64_t>(left + w.kernel_width, begin, w.width);
        for (std::int64_t ky = 0; ky < w.kernel_height; ++ky) {
          const auto y = i * w.stride_height - w.padding_height + ky;
          if (y < 0 || y >= w.height || begin == end) {
            put_zeros(w.kernel_width);
            continue;
          }
          put_zeros(begin - left);
          const auto bytes = static_cast<std::size_t>(end - begin) * pixel;
          std::memcpy(to, from + static_cast<std::size_t>((n * w.height + y) * w.width + begin) * pixel, bytes);
          to += bytes;
          put_zeros(left + w.kernel_width - end);
        }
      }
}

DDL_CLONES void fold_windows(const Windows& windows, const float* seen, float* maps) { fold(windows, seen, maps); }
DDL_CLONES void fold_windows(const Windows& windows, const double* seen, double* maps) { fold(windows, seen, maps); }
DDL_CLONES void fold_windows(const Windows& windows, const Bf16* seen, Bf16* maps) { fold(windows, seen, maps); }

}  // namespace ddl
