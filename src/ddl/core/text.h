#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddl {

/// The entry of `known` that `word` was probably meant to be: the least edit distance, at most a third of the
/// word's length, or 2; empty where none is that near.
std::string nearest(std::string_view word, std::span<const std::string> known);

/// " (did you mean 'x'?)" or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

std::string join(std::span<const std::string> parts, std::string_view between);
std::vector<std::string> split(std::string_view text, char at);
std::string_view trim(std::string_view text);

}  // namespace ddl
