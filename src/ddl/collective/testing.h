#pragma once

#include <bit>
#include <cmath>
#include <cstring>

#include "ddl/collective/communicator.h"
#include "ddl/transport/testing.h"

namespace ddl::testing {

/// Runs `body` for every rank of a group, on threads.
inline Outcomes run_group(const std::string& transport, int ranks, const std::function<void(Communicator&)>& body,
                          const CommunicatorOptions& options = {Seconds{20}}) {
  const auto chosen = choose_transport(transport, {Seconds{20}, "secret"});
  return run_ranks(ranks, [&](Rendezvous& meeting) {
    Communicator communicator(chosen.make(meeting, chosen.options), options);
    body(communicator);
  });
}

/// Registered names without the goal before them, as Collective::algorithm wants them.
inline std::vector<std::string> names_of(const Registry<CollectiveAlgorithm>& registry) {
  auto names = registry.names();
  for (auto& name : names)
    if (const auto slash = name.find('/'); slash != std::string::npos) name.erase(0, slash + 1);
  return names;
}

/// Elements of any type, as numbers. Only for numbers that the type holds exactly.
struct Number {
  static double read(ElementType type, const std::byte* data, std::size_t i) {
    switch (type) {
      case ElementType::fp32: return at<float>(data, i);
      case ElementType::fp64: return at<double>(data, i);
      case ElementType::int32: return at<std::int32_t>(data, i);
      case ElementType::int64: return static_cast<double>(at<std::int64_t>(data, i));
      case ElementType::bf16: return std::bit_cast<float>(std::uint32_t{at<std::uint16_t>(data, i)} << 16);
      case ElementType::fp16: return half(at<std::uint16_t>(data, i));
    }
    return 0;
  }
  static void write(ElementType type, std::byte* data, std::size_t i, double value) {
    switch (type) {
      case ElementType::fp32: return put(data, i, static_cast<float>(value));
      case ElementType::fp64: return put(data, i, value);
      case ElementType::int32: return put(data, i, static_cast<std::int32_t>(value));
      case ElementType::int64: return put(data, i, static_cast<std::int64_t>(value));
      case ElementType::bf16: return put(data, i, static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
      case ElementType::fp16: return put(data, i, to_half(value));
    }
  }

 private:
  template <typename T>
  static T at(const std::byte* data, std::size_t i) {
    T value;
    std::memcpy(&value, data + i * sizeof(T), sizeof(T));
    return value;
  }
  template <typename T>
  static void put(std::byte* data, std::size_t i, T value) {
    std::memcpy(data + i * sizeof(T), &value, sizeof(T));
  }
  static double half(std::uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const double fraction = bits & 1023;
    const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) return fraction == 0 ? (bits & 0x8000 ? -INFINITY : INFINITY) : NAN;
    return bits & 0x8000 ? -size : size;
  }
  static std::uint16_t to_half(double value) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
    if (value == 0) return 0;
    const auto sign = static_cast<std::uint16_t>(value < 0 ? 0x8000 : 0);
    return static_cast<std::uint16_t>(sign | ((exponent + 14) << 10) | (static_cast<int>(fraction * 2048) & 1023));
  }
};

template <typename T>
constexpr ElementType element_type() {
  if constexpr (std::is_same_v<T, float>) return ElementType::fp32;
  if constexpr (std::is_same_v<T, double>) return ElementType::fp64;
  if constexpr (std::is_same_v<T, std::int32_t>) return ElementType::int32;
  if constexpr (std::is_same_v<T, std::int64_t>) return ElementType::int64;
}

template <typename T>
Buffer buffer_of(std::span<T> values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size(), element_type<T>()};
}

inline void require(bool holds, const std::string& what) {
  if (!holds) throw Error(Code::corrupt, what);
}

}  // namespace ddl::testing
