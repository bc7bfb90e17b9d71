#include "ddl/report/format.h"

#include <array>
#include <cctype>
#include <cmath>

#include <fmt/format.h>

#include "ddl/core/text.h"

namespace ddl {
namespace {

std::string grouped(long long whole) {
  std::string digits = std::to_string(std::abs(whole));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return whole < 0 ? "-" + digits : digits;
}

int decimals_for_three_figures(double value) {
  const double size = std::abs(value);
  if (size >= 99.95) return 0;
  if (size >= 9.995) return 1;
  if (size >= 0.9995) return 2;
  return 3;
}

}  // namespace

std::string in_figures(double value) {
  if (!std::isfinite(value)) return "-";
  if (std::abs(value) >= 99.95 && std::abs(value) < 9e18) return grouped(std::llround(value));
  return fmt::format("{:.{}f}", value, decimals_for_three_figures(value));
}

std::string in_ms(double milliseconds) { return in_figures(milliseconds) + " ms"; }

std::string in_percent(double share) {
  const double percent = 100 * share;
  if (!std::isfinite(percent)) return "-";
  return fmt::format("{:.{}f} %", percent, std::abs(percent) >= 9.95 || percent == 0 ? 0 : 1);
}

std::string in_times(double ratio) { return fmt::format("{:.2f}x", ratio); }

std::string in_words(int count) {
  constexpr std::array kWords{"no",  "one",   "two",   "three", "four", "five",   "six",
                              "seven", "eight", "nine", "ten",  "eleven", "twelve"};
  return count >= 0 && count < static_cast<int>(kWords.size()) ? kWords[static_cast<std::size_t>(count)]
                                                               : std::to_string(count);
}

std::string counted(long long count, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(count), noun, count == 1 ? "" : "s");
}

std::string enumerated(const std::vector<std::string>& parts) {
  if (parts.size() < 2) return join(parts, "");
  return join(std::span(parts).first(parts.size() - 1), ", ") + " and " + parts.back();
}

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

}  // namespace ddl
