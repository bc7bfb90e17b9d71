#pragma once

#include "ddl/nn/multiplier.h"

namespace ddl {

/// Multipliers of this process for as long as it lives.
struct Multiplying {
  Multipliers before = multipliers();
  explicit Multiplying(const Multipliers& chosen) { use_multipliers(chosen); }
  Multiplying(const Multiplying&) = delete;
  Multiplying& operator=(const Multiplying&) = delete;
  ~Multiplying() { use_multipliers(before); }
};

}  // namespace ddl
