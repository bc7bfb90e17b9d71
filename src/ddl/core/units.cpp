#include "ddl/core/units.h"

#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "ddl/core/error.h"

namespace ddl {
namespace {

struct Unit {
  std::string_view word;
  double factor;
};

constexpr std::array kByteUnits{Unit{"B", 1},           Unit{"KiB", 1024.0},          Unit{"MiB", 1048576.0},
                                Unit{"GiB", 1073741824.0}, Unit{"TiB", 1099511627776.0}, Unit{"kB", 1e3},
                                Unit{"MB", 1e6},        Unit{"GB", 1e9},              Unit{"TB", 1e12}};
constexpr std::array kTimeUnits{Unit{"s", 1},    Unit{"ms", 1e-3}, Unit{"us", 1e-6},
                                Unit{"ns", 1e-9}, Unit{"min", 60},  Unit{"h", 3600}};
constexpr std::array kRateUnits{Unit{"bps", 1}, Unit{"kbps", 1e3}, Unit{"Mbps", 1e6}, Unit{"Gbps", 1e9},
                                Unit{"Tbps", 1e12}};

double parse(std::string_view text, std::span<const Unit> units, std::string_view quantity) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string known;
  for (const auto& unit : units) known += (known.empty() ? "" : " ") + std::string(unit.word);
  if (error != std::errc{} || !std::isfinite(number))
    throw Error(Code::invalid_argument, fmt::format("[units] not a {}; got '{}', expected a number and one of: {}",
                                                    quantity, text, known));
  std::string_view word(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
  if (word.empty() && number == 0) return 0;
  for (const auto& unit : units)
    if (unit.word == word) return number * unit.factor;
  throw Error(Code::invalid_argument,
              fmt::format("[units] {} unit of a {}; got '{}', expected one of: {}", word.empty() ? "missing" : "unknown",
                          quantity, text, known));
}

std::string scaled(double value, std::span<const Unit> descending) {
  for (const auto& unit : descending)
    if (std::abs(value) >= unit.factor) return fmt::format("{:.3g} {}", value / unit.factor, unit.word);
  return fmt::format("{:.3g} {}", value / descending.back().factor, descending.back().word);
}

}  // namespace

Bytes parse_bytes(std::string_view text) {
  const double value = parse(text, kByteUnits, "size");
  if (value < 0 || value > 9e18)
    throw Error(Code::invalid_argument, fmt::format("[units] size out of range; got '{}', expected 0 B to 9 EB", text));
  return {static_cast<std::int64_t>(std::llround(value))};
}
Seconds parse_seconds(std::string_view text) { return {parse(text, kTimeUnits, "time")}; }
BitsPerSecond parse_bits_per_second(std::string_view text) { return {parse(text, kRateUnits, "rate")}; }

std::string to_string(Bytes bytes) {
  constexpr std::array units{Unit{"TiB", 1099511627776.0}, Unit{"GiB", 1073741824.0}, Unit{"MiB", 1048576.0},
                             Unit{"KiB", 1024.0}, Unit{"B", 1}};
  return scaled(static_cast<double>(bytes.value), units);
}
std::string to_string(Seconds seconds) {
  constexpr std::array units{Unit{"h", 3600}, Unit{"min", 60}, Unit{"s", 1}, Unit{"ms", 1e-3}, Unit{"us", 1e-6},
                             Unit{"ns", 1e-9}};
  return scaled(seconds.value, units);
}
std::string to_string(BitsPerSecond rate) {
  constexpr std::array units{Unit{"Tbit/s", 1e12}, Unit{"Gbit/s", 1e9}, Unit{"Mbit/s", 1e6}, Unit{"kbit/s", 1e3},
                             Unit{"bit/s", 1}};
  return scaled(rate.value, units);
}

}  // namespace ddl
