#pragma once

#include <memory>
#include <span>
#include <type_traits>

#include "ddl/collective/compression.h"

namespace ddl {

// Makers of Compressor<float> and Compressor<double>; each file says what its compression does.

template <typename T>
std::unique_ptr<Compressor<T>> fp16_compressor(const Spec&, const CompressedBuffer&);
template <typename T>
std::unique_ptr<Compressor<T>> bf16_compressor(const Spec&, const CompressedBuffer&);
template <typename T>
std::unique_ptr<Compressor<T>> int8_compressor(const Spec&, const CompressedBuffer&);
template <typename T>
std::unique_ptr<Compressor<T>> top_k_compressor(const Spec&, const CompressedBuffer&);
template <typename T>
std::unique_ptr<Compressor<T>> random_k_compressor(const Spec&, const CompressedBuffer&);
template <typename T>
std::unique_ptr<Compressor<T>> power_sgd_compressor(const Spec&, const CompressedBuffer&);

template <typename T>
inline constexpr ElementType kTypeOf = std::is_same_v<T, float>          ? ElementType::fp32
                                       : std::is_same_v<T, double>       ? ElementType::fp64
                                       : std::is_same_v<T, std::int32_t> ? ElementType::int32
                                                                         : ElementType::int64;

template <typename T>
Buffer as_buffer(std::span<T> values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size(), kTypeOf<T>};
}

/// How many of the elements a sparse compression sends: option `ratio` of them, to the nearest, at least one.
/// Errors: invalid_argument where it is not in (0, 1].
std::size_t kept_elements(const Spec& spec, std::size_t elements);

/// Errors: invalid_argument where the option is no whole number from 1 on.
std::size_t count_option(const Spec& spec, const std::string& name, std::size_t otherwise);

template <typename T>
bool all_finite(std::span<const T> values) {
  // x - x is 0 or NaN: one comparison at the end, so that the loop has no branch.
  T sum = 0;
  for (const T value : values) sum += value - value;
  return sum == 0;
}

}  // namespace ddl
