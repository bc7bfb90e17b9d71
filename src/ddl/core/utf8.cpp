#include "ddl/core/utf8.h"

#include <cstdint>

namespace ddl {

std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto first = at(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && at(1) < 0xa0) || (first == 0xf0 && at(1) < 0x90);
  const bool surrogate = first == 0xed && at(1) >= 0xa0;
  const bool beyond = first == 0xf4 && at(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    if (static_cast<std::uint8_t>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const auto length = utf8_length(text.substr(i));
    if (length == 0) return false;
    i += length;
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  std::string valid;
  while (!text.empty()) {
    const auto length = utf8_length(text);
    if (length == 0)
      valid += "\xef\xbf\xbd";
    else
      valid += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return valid;
}

std::string normalised_text(std::string_view text) {
  if (!is_utf8(text)) return normalised_text(to_utf8(text));
  std::string normalised;
  normalised.reserve(text.size());
  bool space = false;
  for (const char c : text) {
    if (c == ' ' || (c >= '\t' && c <= '\r')) {
      space = !normalised.empty();
      continue;
    }
    if (space) normalised += ' ';
    space = false;
    normalised += c;
  }
  return normalised;
}

}  // namespace ddl
