#pragma once

#include "ddl/core/error.h"
#include "ddl/lab/config_values.h"

namespace ddl {

/// An error of `body` is one of the flag.
template <typename Body>
auto of_flag(const char* flag, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    throw prefixed(flag, error);
  }
}

}  // namespace ddl
