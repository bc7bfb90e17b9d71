#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddl {

/// A count of bytes. Written `25MiB` (binary prefixes) or `25MB` (decimal ones).
struct Bytes {
  std::int64_t value = 0;
  auto operator<=>(const Bytes&) const = default;
};

/// A time span. Written `1.5s`, `20ms`, `200us`, `80ns`, `2min`, `1h`.
struct Seconds {
  double value = 0;
  auto operator<=>(const Seconds&) const = default;
};

/// Bits on a wire per second. Written `10Gbps`.
struct BitsPerSecond {
  double value = 0;
  auto operator<=>(const BitsPerSecond&) const = default;
};

/// Errors of all three: invalid_argument, saying what was got and which units are known.
/// A bare number is taken only where it means the same in every reading: 0.
Bytes parse_bytes(std::string_view text);
Seconds parse_seconds(std::string_view text);
BitsPerSecond parse_bits_per_second(std::string_view text);

/// The shortest exact-looking form for people: `25 MiB`, `1.53 ms`, `10 Gbit/s`.
std::string to_string(Bytes bytes);
std::string to_string(Seconds seconds);
std::string to_string(BitsPerSecond rate);

}  // namespace ddl
