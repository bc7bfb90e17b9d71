#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace ddl {

/// Keys keep the order in which they were written, so that documents diff line by line.
using Json = nlohmann::ordered_json;

/// Errors: corrupt, with `what` and the byte where reading stopped.
Json parse_json(std::string_view text, std::string_view what);

/// A file that appears only complete: written beside, synced, renamed. Errors: io.
void write_file(const std::string& path, std::string_view content);
/// Errors: not_found, io.
std::string read_file(const std::string& path);

}  // namespace ddl
