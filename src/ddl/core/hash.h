#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ddl {

/// 128-bit XXH3 of a stream of bytes, as 32 hexadecimal digits. Identity and corruption checks, not security.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  Hasher& add(std::span<const std::byte> bytes);
  Hasher& add(std::string_view text);
  std::string digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string digest(std::string_view text);

}  // namespace ddl
