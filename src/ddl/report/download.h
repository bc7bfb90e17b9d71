#pragma once

#include <string>
#include <string_view>

#include "ddl/core/json.h"

namespace ddl {

std::string gzip(std::string_view content);
std::string base64(std::string_view bytes);

/// A record packed for a data: URL.
struct Download {
  std::string file_name;   ///< safe on every file system
  std::string url;         ///< data:application/gzip;base64,…
  bool whole = true;       ///< false where values had to go for size; `left_out` then says which
  std::string left_out;
};

/// The record as it is, where it packs into `budget` bytes; else with step times rounded to the microsecond, then
/// without its trace, then without each step's times.
Download download_of(const Json& record, std::size_t budget);

}  // namespace ddl
