#pragma once

#include <string>
#include <string_view>

namespace ddl {

/// Bytes of the UTF-8 sequence that `text` begins with: 1 … 4, or 0 where it begins with none. Overlong forms,
/// surrogates and what lies beyond U+10FFFF are none (RFC 3629).
std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

/// The same text with U+FFFD for each byte that belongs to no sequence; text that is UTF-8 stays as it is.
std::string to_utf8(std::string_view text);

/// Valid UTF-8, each run of ASCII white space as one space, none at either end.
std::string normalised_text(std::string_view text);

}  // namespace ddl
