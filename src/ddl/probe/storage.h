#pragma once

#include <cstdint>
#include <string>

#include "ddl/core/units.h"

namespace ddl {

/// What a folder's storage gives one reader.
struct StorageTimes {
  double bytes_per_s = 0;    ///< of a file from its beginning to its end, in pieces of 1 MiB
  double read_seconds = 0;   ///< of 4 KiB anywhere in it: the median
  double resident = 0;       ///< share of the file that was in memory all the same: above a few percent memory was measured, not storage
};

/// Writes a file of so many bytes there, has the kernel forget it, reads it, and removes it. Pieces beyond the budget are not read, but no fewer than 16 of either sort.
/// Errors: io, naming the folder: not to be written to, no room; invalid_argument for fewer bytes than 1 MiB.
StorageTimes measure_storage(const std::string& folder, std::int64_t bytes, Seconds budget);

}  // namespace ddl
