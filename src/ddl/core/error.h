#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace ddl {

/// The closed set of ways in which an operation can fail. Callers switch on it; it never grows a catch-all.
enum class Code { invalid_argument, not_found, unsupported, io, timeout, peer_lost, corrupt, interrupted };

std::string_view name(Code code);
/// The inverse of name(). Errors: invalid_argument on a word that is none of them.
Code code_from_name(std::string_view word);

/// One failure: what went wrong, as `[where] what; got …, expected …`, and the line that noticed.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message,
        std::source_location where = std::source_location::current());

  Code code() const { return code_; }
  const std::source_location& where() const { return where_; }

 private:
  Code code_;
  std::source_location where_;
};

/// A broken invariant is a mistake of ours, never of a user: it says where and aborts.
void invariant(bool holds, std::string_view what,
               std::source_location where = std::source_location::current());

/// `what: strerror(number)`, as an Error with code io.
[[nodiscard]] Error system_error(std::string_view what, int number,
                                 std::source_location where = std::source_location::current());

}  // namespace ddl
