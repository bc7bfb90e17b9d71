#include "ddl/nn/kernels/small_products.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddl/nn/kernels/small_products.cpp"
// As collective/reduce.cpp: every further target costs as much to compile as all the rest.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace ddl::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// Sums that stay in registers: of so many rows and so many vectors of columns. Of 32 registers 24 hold sums, of 16 twelve; the rest is for a row of the right factor and an element of the left.
constexpr int kRows = 6;
#if HWY_TARGET <= HWY_AVX3
constexpr int kVectors = 4;
#else
constexpr int kVectors = 2;
#endif

/// The first `count` elements, zeros behind them; nothing beyond is read.
HWY_INLINE V load_part(const float* from, std::size_t count) {
  const D d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET <= HWY_AVX3
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
  HWY_ALIGN float own[hn::MaxLanes(D())] = {};
  std::copy(from, from + count, own);
  return hn::Load(d, own);
#endif
}

HWY_INLINE void store_part(V v, float* to, std::size_t count) {
  const D d;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET <= HWY_AVX3
  hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#else
  HWY_ALIGN float own[hn::MaxLanes(D())];
  hn::Store(v, d, own);
  std::copy(own, own + count, to);
#endif
}

struct Tile {
  std::int64_t depth;
  SmallFactor left;
  const float* right;
  std::int64_t right_row;
  float* to;
  std::int64_t to_row;
  bool adds;
};

/// The last vector has `last` columns where that is not all of it.
template <int R, int N, bool kPart>
HWY_INLINE void multiply_tile(const Tile& t, std::size_t last) {
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const auto load = [&](const float* from, int v) HWY_ATTR { return kPart && v == N - 1 ? load_part(from + v * lanes, last) : hn::LoadU(d, from + v * lanes); };
  V sums[R][N];
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < N; ++v) sums[r][v] = t.adds ? load(t.to + r * t.to_row, v) : hn::Zero(d);
  const float* left[R];
  for (int r = 0; r < R; ++r) left[r] = t.left.at + r * t.left.row;
  const float* right = t.right;
  for (std::int64_t k = 0; k < t.depth; ++k, right += t.right_row) {
    V row[N];
    for (int v = 0; v < N; ++v) row[v] = load(right, v);
    for (int r = 0; r < R; ++r) {
      const V by = hn::Set(d, *left[r]);
      left[r] += t.left.column;
      for (int v = 0; v < N; ++v) sums[r][v] = hn::MulAdd(by, row[v], sums[r][v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < N; ++v) {
      float* const to = t.to + r * t.to_row + v * lanes;
      if (kPart && v == N - 1)
        store_part(sums[r][v], to, last);
      else
        hn::StoreU(sums[r][v], d, to);
    }
}

template <int N, bool kPart>
HWY_INLINE void multiply_rows(std::int64_t rows, Tile t, std::size_t last) {
  const auto next = [&](std::int64_t count) HWY_ATTR {
    t.left.at += count * t.left.row;
    t.to += count * t.to_row;
    rows -= count;
  };
  for (; rows >= kRows; next(kRows)) multiply_tile<kRows, N, kPart>(t, last);
  switch (rows) {
    case 5: multiply_tile<5, N, kPart>(t, last); break;
    case 4: multiply_tile<4, N, kPart>(t, last); break;
    case 3: multiply_tile<3, N, kPart>(t, last); break;
    case 2: multiply_tile<2, N, kPart>(t, last); break;
    case 1: multiply_tile<1, N, kPart>(t, last); break;
    default: break;
  }
}

template <int N>
HWY_INLINE void multiply_columns(std::int64_t rows, const Tile& t, std::size_t last) {
  last == 0 ? multiply_rows<N, false>(rows, t, 0) : multiply_rows<N, true>(rows, t, last);
}

}  // namespace

HWY_ATTR void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const SmallFactor& left, const float* right, std::int64_t right_row, float* to, std::int64_t to_row, bool adds) {
  const D d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  Tile t{k, left, right, right_row, to, to_row, adds};
  const auto next = [&](std::int64_t columns) HWY_ATTR {
    t.right += columns;
    t.to += columns;
    n -= columns;
  };
  for (; n >= kVectors * lanes; next(kVectors * lanes)) multiply_rows<kVectors, false>(m, t, 0);
  if (n == 0) return;
  const auto vectors = (n + lanes - 1) / lanes;
  const auto last = static_cast<std::size_t>(n % lanes);
  switch (vectors) {
    case 1: multiply_columns<1>(m, t, last); break;
    case 2: multiply_columns<2>(m, t, last); break;
#if HWY_TARGET <= HWY_AVX3
    case 3: multiply_columns<3>(m, t, last); break;
    case 4: multiply_columns<4>(m, t, last); break;
#endif
    default: break;
  }
}

}  // namespace ddl::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddl {
namespace {
HWY_EXPORT(multiply);
}  // namespace

void multiply_small(std::int64_t m, std::int64_t n, std::int64_t k, const SmallFactor& left, const float* right, std::int64_t right_row, float* to, std::int64_t to_row, bool adds) {
  HWY_DYNAMIC_DISPATCH(multiply)(m, n, k, left, right, right_row, to, to_row, adds);
}

void transpose_small(std::int64_t rows, std::int64_t columns, const float* from, std::int64_t from_row, float* to) {
  // Squares of a cache line's elements: each line of `to` is written whole while those of `from` are near.
  constexpr std::int64_t kSide = 16;
  for (std::int64_t row = 0; row < rows; row += kSide)
    for (std::int64_t column = 0; column < columns; column += kSide) {
      const auto high = std::min(kSide, rows - row), wide = std::min(kSide, columns - column);
      for (std::int64_t c = 0; c < wide; ++c)
        for (std::int64_t r = 0; r < high; ++r) to[(column + c) * rows + row + r] = from[(row + r) * from_row + column + c];
    }
}

}  // namespace ddl
#endif
