#pragma once

#include <cstdint>
#include <string>

#include "ddl/core/error.h"

namespace ddl {

/// Bytes of a parameter. Errors: unsupported for what this version does not train in.
inline std::int64_t element_bytes(const std::string& precision) {
  if (precision == "fp32") return 4;
  if (precision == "fp64") return 8;
  throw Error(Code::unsupported, fmt::format("[precision] unsupported: '{}' is not in this version; expected fp32 or fp64", precision));
}

}  // namespace ddl
