#pragma once

#include <cstdint>
#include <cstring>

#include "ddl/core/clones.h"

namespace ddl {

/// A number of 16 bits with fp32's range: its upper half. Kernels compute in fp32 and round when they store, to nearest, ties to even; NaN stays NaN. Without a branch, so that loops become vectors.
struct Bf16 {
  std::uint16_t bits;

  Bf16() = default;
  DDL_INLINE Bf16(float value) {  // NOLINT(google-explicit-constructor): kernels store what they computed
    std::uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    const std::uint32_t rounded = (word + 0x7FFFU + ((word >> 16) & 1U)) >> 16, quiet = (word >> 16) | 0x40U;
    bits = static_cast<std::uint16_t>((word & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
  }
  DDL_INLINE operator float() const {  // NOLINT(google-explicit-constructor)
    const std::uint32_t word = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
};
static_assert(sizeof(Bf16) == 2);

/// What kernels compute in, of elements of type T.
template <typename T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<Bf16> {
  using type = float;
};
template <typename T>
using Wide = typename WideOf<T>::type;

}  // namespace ddl
