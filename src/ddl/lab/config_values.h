#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/error.h"

namespace ddl {

/// Text as it was written to what it means. Errors of all: invalid_argument as `what; got '…', expected …`, without
/// the origin, which the caller knows.
std::int64_t parse_integer(std::string_view text, std::int64_t low, std::int64_t high);
double parse_number(std::string_view text, double low, double high);
/// true false on off yes no.
bool parse_boolean(std::string_view text);
/// One of `choices`, with the nearest in the message.
std::string parse_choice(std::string_view text, const std::vector<std::string>& choices);
/// Printable UTF-8 without control characters, at most 4096 bytes: safe in messages, JSON and terminals.
std::string parse_text(std::string_view text);

/// `text` in quotes for a message: control characters and broken UTF-8 as \xNN, cut after 80 bytes.
std::string in_quotes(std::string_view text);

/// "prefix: message" with the code that `error` has.
Error prefixed(const std::string& prefix, const Error& error);

}  // namespace ddl
