#pragma once

#include <cstdint>
#include <type_traits>

#include "ddl/core/bf16.h"

namespace ddl {

// Within kernels: what is narrow is widened and rounded in loops of their own, which alone become vectors.

/// Elements to compute on: as they are, or in memory of their own.
template <typename T>
DDL_INLINE const Wide<T>* widened(const T* __restrict from, std::int64_t n, Wide<T>* __restrict own) {
  if constexpr (std::is_same_v<T, Wide<T>>) {
    return from;
  } else {
    for (std::int64_t c = 0; c < n; ++c) own[c] = from[c];
    return own;
  }
}

/// Where to write: there, or to memory of its own, which put() then rounds.
template <typename T>
DDL_INLINE Wide<T>* place_of(T* to, Wide<T>* own) {
  if constexpr (std::is_same_v<T, Wide<T>>)
    return to;
  else
    return own;
}
template <typename T>
DDL_INLINE void put(const Wide<T>* __restrict own, std::int64_t n, T* __restrict to) {
  if constexpr (!std::is_same_v<T, Wide<T>>)
    for (std::int64_t c = 0; c < n; ++c) to[c] = own[c];
}

/// bf16 to fp32; `adds`: to what is there.
void widen_elements(const Bf16* from, bool adds, float* to, std::int64_t elements);
/// fp32 to bf16, rounded to the nearest.
void narrow_elements(const float* from, Bf16* to, std::int64_t elements);

}  // namespace ddl
