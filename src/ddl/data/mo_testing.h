#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddl {

/// A .mo file of raw ids and texts (context, plurals and header as they stand in the file), for tests: sorted as the
/// format wants.
inline std::string mo_bytes(std::vector<std::pair<std::string, std::string>> messages, bool big_endian = false) {
  std::sort(messages.begin(), messages.end());
  std::string file;
  const auto put = [&](std::uint64_t value) {
    for (int i = 0; i < 4; ++i)
      file += static_cast<char>(static_cast<std::uint8_t>(value >> 8 * (big_endian ? 3 - i : i)));
  };
  const auto count = messages.size();
  for (const std::uint64_t value :
       {std::uint64_t{0x950412de}, std::uint64_t{0}, std::uint64_t{count}, std::uint64_t{28},
        std::uint64_t{28 + 8 * count}, std::uint64_t{0}, std::uint64_t{28 + 16 * count}})
    put(value);
  std::string texts;
  const auto list = [&](const std::string& text) {
    put(text.size());
    put(28 + 16 * count + texts.size());
    texts += text + '\0';
  };
  for (const auto& message : messages) list(message.first);
  for (const auto& message : messages) list(message.second);
  return file + texts;
}

}  // namespace ddl
