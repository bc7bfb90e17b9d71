#pragma once

#include <cstdint>

namespace ddl {

/// What tensors hold of a device's memory. Bytes.
struct DeviceMemory {
  std::int64_t current = 0;
  std::int64_t peak = 0;     ///< since the last reset_peak()
  std::int64_t refused = 0;  ///< the last request that there was no memory for, where the device tells
};

}  // namespace ddl
