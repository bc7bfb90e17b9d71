#include "ddl/nn/kernels/winograd.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "ddl/core/clones.h"
#include "ddl/nn/kernels/widen.h"

namespace ddl {
namespace {

constexpr std::int64_t kChannels = 64;  // worked on at once: of pixels that are not there, so many zeros are read

template <typename T>
struct Four {
  T a, b, c, d;
};

/// Four rows, that many elements apart.
template <typename T, typename F>
DDL_INLINE void put_four(T* out, std::int64_t apart, std::int64_t n, F&& four) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    T *const __restrict first = out, *const __restrict second = out + apart, *const __restrict third = out + 2 * apart, *const __restrict fourth = out + 3 * apart;
    for (std::int64_t c = 0; c < n; ++c) {
      const auto made = four(c);
      first[c] = made.a, second[c] = made.b, third[c] = made.c, fourth[c] = made.d;
    }
  } else {
    Wide<T> rows[4][kChannels];
    for (std::int64_t c = 0; c < n; ++c) {
      const auto made = four(c);
      rows[0][c] = made.a, rows[1][c] = made.b, rows[2][c] = made.c, rows[3][c] = made.d;
    }
    for (std::int64_t i = 0; i < 4; ++i) put(rows[i], n, out + i * apart);
  }
}

/// The next channels, at most kChannels; of usual numbers of them loops have no ends of their own.
template <typename F>
DDL_INLINE void with_count(std::int64_t left, F&& transform) {
  if (left >= kChannels)
    transform(kChannels);
  else if (left == kChannels / 2)
    transform(kChannels / 2);
  else
    transform(left);
}

/// B' x.
template <typename T>
DDL_INLINE Four<T> see(T x0, T x1, T x2, T x3) {
  return {x0 - x2, x1 + x2, x2 - x1, x1 - x3};
}

/// Where a tile lies: of its sample, its first row and column of the output.
struct Place {
  std::int64_t sample, row, column;
};
DDL_INLINE Place place_of(const WinogradTiles& tiles, std::int64_t tile) {
  const auto wide = tiles.tiles_wide(), each = tiles.tiles_high() * wide;
  return {tile / each, tile % each / wide * 2, tile % wide * 2};
}
DDL_INLINE Place after(const Place& place, std::int64_t height, std::int64_t width) {
  if (place.column + 2 < width) return {place.sample, place.row, place.column + 2};
  return place.row + 2 < height ? Place{place.sample, place.row + 2, 0} : Place{place.sample + 1, 0, 0};
}

template <typename T>
DDL_INLINE void see_tiles(const WinogradTiles& given, const TilePart& part, std::int64_t channels, const T* maps, T* to) {
  const WinogradTiles tiles = given;
  const T zeros[kChannels] = {};
  const auto [first, count, first_tile, last_tile] = part;
  const auto apart = count * channels, height = tiles.out_height(), width = tiles.out_width();
  auto place = place_of(tiles, first_tile);
  for (auto tile = first_tile; tile < last_tile; ++tile, place = after(place, height, width)) {
    const auto [sample, row, column] = place;
    for (std::int64_t begin = 0; begin < channels; begin += kChannels) {
      const T* seen[16];
      for (std::int64_t i = 0; i < 16; ++i) {
        const auto y = row - tiles.padding_height + i / 4, x = column - tiles.padding_width + i % 4;
        const bool there = y >= 0 && y < tiles.height && x >= 0 && x < tiles.width;
        seen[i] = there ? maps + ((sample * tiles.height + y) * tiles.width + x) * channels + begin : zeros;
      }
      T* const __restrict out = to + (tile - first) * channels + begin;
      const auto transform = [&](std::int64_t n) __attribute__((always_inline)) {
        using W = Wide<T>;
        W half[16][kChannels];
        [[maybe_unused]] W own[4][kChannels];
        for (std::int64_t j = 0; j < 4; ++j) {
          const W *const p0 = widened(seen[j], n, own[0]), *const p1 = widened(seen[4 + j], n, own[1]), *const p2 = widened(seen[8 + j], n, own[2]), *const p3 = widened(seen[12 + j], n, own[3]);
          for (std::int64_t c = 0; c < n; ++c) {
            const auto down = see(p0[c], p1[c], p2[c], p3[c]);
            half[j][c] = down.a, half[4 + j][c] = down.b, half[8 + j][c] = down.c, half[12 + j][c] = down.d;
          }
        }
        for (std::int64_t i = 0; i < 16; i += 4)
          put_four(out + i * apart, apart, n, [&](std::int64_t c) __attribute__((always_inline)) { return see(half[i][c], half[i + 1][c], half[i + 2][c], half[i + 3][c]); });
      };
      with_count(channels - begin, transform);
    }
  }
}

/// A x.
template <typename T>
DDL_INLINE Four<T> spread(T x0, T x1) {
  return {x0, x0 + x1, x0 - x1, -x1};
}

template <typename T>
DDL_INLINE void spread_tiles(const WinogradTiles& given, const TilePart& part, std::int64_t channels, const T* gradient, T* to) {
  const WinogradTiles tiles = given;
  const T zeros[kChannels] = {};
  const auto [first, count, first_tile, last_tile] = part;
  const auto apart = count * channels, height = tiles.out_height(), width = tiles.out_width();
  auto place = place_of(tiles, first_tile);
  for (auto tile = first_tile; tile < last_tile; ++tile, place = after(place, height, width)) {
    const auto [sample, row, column] = place;
    for (std::int64_t begin = 0; begin < channels; begin += kChannels) {
      const T* given_at[4];
      for (std::int64_t i = 0; i < 4; ++i) {
        const auto y = row + i / 2, x = column + i % 2;
        given_at[i] = y < height && x < width ? gradient + ((sample * height + y) * width + x) * channels + begin : zeros;
      }
      const T *const p00 = given_at[0], *const p01 = given_at[1], *const p10 = given_at[2], *const p11 = given_at[3];
      T* const __restrict out = to + (tile - first) * channels + begin;
      const auto transform = [&](std::int64_t n) __attribute__((always_inline)) {
        using W = Wide<T>;
        W left[4][kChannels], right[4][kChannels];
        [[maybe_unused]] W own[4][kChannels];
        const W *const q00 = widened(p00, n, own[0]), *const q01 = widened(p01, n, own[1]), *const q10 = widened(p10, n, own[2]), *const q11 = widened(p11, n, own[3]);
        for (std::int64_t c = 0; c < n; ++c) {
          const auto down = spread(q00[c], q10[c]), other = spread(q01[c], q11[c]);
          left[0][c] = down.a, left[1][c] = down.b, left[2][c] = down.c, left[3][c] = down.d;
          right[0][c] = other.a, right[1][c] = other.b, right[2][c] = other.c, right[3][c] = other.d;
        }
        for (std::int64_t i = 0; i < 4; ++i)
          put_four(out + 4 * i * apart, apart, n, [&](std::int64_t c) __attribute__((always_inline)) { return spread(left[i][c], right[i][c]); });
      };
      with_count(channels - begin, transform);
    }
  }
}

template <typename T>
DDL_INLINE void gather_tiles(const WinogradTiles& given, const TilePart& part, std::int64_t channels, const T* products, const Wide<T>* bias, bool rectifies, T* result) {
  using W = Wide<T>;
  const WinogradTiles tiles = given;
  const W zeros[kChannels] = {};
  const W least = rectifies ? W{0} : -std::numeric_limits<W>::infinity();
  T nowhere[kChannels];
  const auto [first, count, first_tile, last_tile] = part;
  const auto apart = count * channels, height = tiles.out_height(), width = tiles.out_width();
  auto place = place_of(tiles, first_tile);
  for (auto tile = first_tile; tile < last_tile; ++tile, place = after(place, height, width)) {
    const auto [sample, row, column] = place;
    for (std::int64_t begin = 0; begin < channels; begin += kChannels) {
      const T* const __restrict from = products + (tile - first) * channels + begin;
      const W* const added = bias != nullptr ? bias + begin : zeros;
      T* out[4];
      for (std::int64_t i = 0; i < 4; ++i) {
        const auto y = row + i / 2, x = column + i % 2;
        out[i] = y < height && x < width ? result + ((sample * height + y) * width + x) * channels + begin : nowhere;
      }
      const auto transform = [&](std::int64_t n) __attribute__((always_inline)) {
        W upper[4][kChannels], lower[4][kChannels];
        [[maybe_unused]] W own[4][kChannels];
        for (std::int64_t j = 0; j < 4; ++j) {
          const auto point = [&](std::int64_t k) __attribute__((always_inline)) { return widened(from + (4 * k + j) * apart, n, own[k]); };
          const W *const m0 = point(0), *const m1 = point(1), *const m2 = point(2), *const m3 = point(3);
          for (std::int64_t c = 0; c < n; ++c) {
            upper[j][c] = m0[c] + m1[c] + m2[c];
            lower[j][c] = m1[c] - m2[c] - m3[c];
          }
        }
        for (std::int64_t i = 0; i < 2; ++i) {
          const auto& half = i == 0 ? upper : lower;
          T *const __restrict left = out[2 * i], *const __restrict right = out[2 * i + 1];
          const auto above = [&](W value) __attribute__((always_inline)) { return value < least ? least : value; };
          for (std::int64_t c = 0; c < n; ++c) left[c] = above(half[0][c] + half[1][c] + half[2][c] + added[c]);
          for (std::int64_t c = 0; c < n; ++c) right[c] = above(half[1][c] - half[2][c] - half[3][c] + added[c]);
        }
      };
      with_count(channels - begin, transform);
    }
  }
}

/// G x.
template <typename T>
DDL_INLINE Four<T> weigh(T x0, T x1, T x2) {
  return {x0, T{0.5} * (x0 + x1 + x2), T{0.5} * (x0 - x1 + x2), x2};
}

template <typename W, typename T>
DDL_INLINE void weigh_all(const ChannelPart& part, const W* weights, bool turned, T* to) {
  const auto [out, in, first, last] = part;
  const auto apart = out * in;
  // Half a turn changes places of the first and the last row, and of the first and the last column.
  const auto turn = [&](std::int64_t i) { return turned && i % 3 == 0 ? 3 - i : i; };
  for (auto o = first; o < last; ++o) {
    const W* const __restrict g = weights + o * 9 * in;
    T* const __restrict row = to + o * in;
    for (std::int64_t begin = 0; begin < in; begin += kChannels) {
      const auto n = std::min(kChannels, in - begin);
      W half[12][kChannels];
      for (std::int64_t j = 0; j < 3; ++j)
        for (std::int64_t c = 0; c < n; ++c) {
          const W* const from = g + j * in + begin + c;
          const auto down = weigh(from[0], from[3 * in], from[6 * in]);
          half[j][c] = down.a, half[3 + j][c] = down.b, half[6 + j][c] = down.c, half[9 + j][c] = down.d;
        }
      for (std::int64_t i = 0; i < 4; ++i) {
        const auto across = [&](std::int64_t c) __attribute__((always_inline)) { return weigh(half[3 * i][c], half[3 * i + 1][c], half[3 * i + 2][c]); };
        T* const four = row + turn(i) * 4 * apart + begin;
        if (turned)
          put_four(four, apart, n, [&](std::int64_t c) __attribute__((always_inline)) {
            const auto [a, b, d, e] = across(c);
            return Four<W>{e, b, d, a};
          });
        else
          put_four(four, apart, n, across);
      }
    }
  }
}

template <typename T>
struct Three {
  T a, b, c;
};

/// G' x.
template <typename T>
DDL_INLINE Three<T> fold(T x0, T x1, T x2, T x3) {
  const T sum = T{0.5} * (x1 + x2);
  return {x0 + sum, T{0.5} * (x1 - x2), sum + x3};
}

template <bool kAdds, typename T>
DDL_INLINE void fold_all(const ChannelPart& part, const T* products, T* gradient) {
  const auto [out, in, first, last] = part;
  const auto apart = out * in;
  for (auto o = first; o < last; ++o) {
    const T* const __restrict row = products + o * in;
    T* const __restrict g = gradient + o * 9 * in;
    for (std::int64_t begin = 0; begin < in; begin += kChannels) {
      const auto n = std::min(kChannels, in - begin);
      T half[12][kChannels];
      for (std::int64_t j = 0; j < 4; ++j)
        for (std::int64_t c = 0; c < n; ++c) {
          const T* const from = row + j * apart + begin + c;
          const auto down = fold(from[0], from[4 * apart], from[8 * apart], from[12 * apart]);
          half[j][c] = down.a, half[4 + j][c] = down.b, half[8 + j][c] = down.c;
        }
      for (std::int64_t i = 0; i < 3; ++i)
        for (std::int64_t c = 0; c < n; ++c) {
          const auto across = fold(half[4 * i][c], half[4 * i + 1][c], half[4 * i + 2][c], half[4 * i + 3][c]);
          T* const at = g + 3 * i * in + begin + c;
          at[0] = kAdds ? at[0] + across.a : across.a;
          at[in] = kAdds ? at[in] + across.b : across.b;
          at[2 * in] = kAdds ? at[2 * in] + across.c : across.c;
        }
    }
  }
}

template <typename T>
DDL_INLINE void fold_any(const ChannelPart& part, const T* products, bool adds, T* gradient) {
  adds ? fold_all<true>(part, products, gradient) : fold_all<false>(part, products, gradient);
}

}  // namespace

DDL_CLONES void winograd_see(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const float* maps, float* to) { see_tiles(tiles, part, channels, maps, to); }
DDL_CLONES void winograd_see(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const double* maps, double* to) { see_tiles(tiles, part, channels, maps, to); }
DDL_CLONES void winograd_see(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const Bf16* maps, Bf16* to) { see_tiles(tiles, part, channels, maps, to); }
DDL_CLONES void winograd_spread(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const float* gradient, float* to) {
  spread_tiles(tiles, part, channels, gradient, to);
}
DDL_CLONES void winograd_spread(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const double* gradient, double* to) {
  spread_tiles(tiles, part, channels, gradient, to);
}
DDL_CLONES void winograd_spread(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const Bf16* gradient, Bf16* to) {
  spread_tiles(tiles, part, channels, gradient, to);
}
DDL_CLONES void winograd_gather(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const float* products, const float* bias, bool rectifies, float* out) {
  gather_tiles(tiles, part, channels, products, bias, rectifies, out);
}
DDL_CLONES void winograd_gather(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const double* products, const double* bias, bool rectifies, double* out) {
  gather_tiles(tiles, part, channels, products, bias, rectifies, out);
}
DDL_CLONES void winograd_gather(const WinogradTiles& tiles, const TilePart& part, std::int64_t channels, const Bf16* products, const float* bias, bool rectifies, Bf16* out) {
  gather_tiles(tiles, part, channels, products, bias, rectifies, out);
}
DDL_CLONES void winograd_weights(const ChannelPart& part, const float* weights, bool turned, float* to) { weigh_all(part, weights, turned, to); }
DDL_CLONES void winograd_weights(const ChannelPart& part, const double* weights, bool turned, double* to) { weigh_all(part, weights, turned, to); }
DDL_CLONES void winograd_weights(const ChannelPart& part, const float* weights, bool turned, Bf16* to) { weigh_all(part, weights, turned, to); }
DDL_CLONES void winograd_weight_gradient(const ChannelPart& part, const float* products, bool adds, float* gradient) { fold_any(part, products, adds, gradient); }
DDL_CLONES void winograd_weight_gradient(const ChannelPart& part, const double* products, bool adds, double* gradient) { fold_any(part, products, adds, gradient); }

}  // namespace ddl
