#pragma once

#include <memory>
#include <optional>
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

// Options. Errors of all: invalid_argument with what was got and what is expected.

/// How many of the elements a sparse compression sends: option `ratio` of them, to the nearest, at least one.
std::size_t kept_elements(const Spec& spec, std::size_t elements);
std::size_t count_option(const Spec& spec, const std::string& name, std::size_t otherwise);
/// How many elements of so many bytes each fit into option `name`, at least one.
std::size_t bytes_option(const Spec& spec, const std::string& name, std::size_t otherwise, std::size_t element);
std::string word_option(const Spec& spec, const std::string& name, const std::vector<std::string>& known, std::size_t otherwise);
std::optional<std::uint64_t> seed_option(const Spec& spec);

template <typename T>
inline constexpr ElementType kTypeOf = std::is_same_v<T, float>          ? ElementType::fp32
                                       : std::is_same_v<T, double>       ? ElementType::fp64
                                       : std::is_same_v<T, std::int32_t> ? ElementType::int32
                                                                         : ElementType::int64;

template <typename T>
Buffer as_buffer(std::span<T> values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size(), kTypeOf<T>};
}

}  // namespace ddl
