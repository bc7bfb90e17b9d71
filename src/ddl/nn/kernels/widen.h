#pragma once

#include <cstdint>

#include "ddl/core/bf16.h"

namespace ddl {

/// bf16 to fp32; `adds`: to what is there.
void widen_elements(const Bf16* from, bool adds, float* to, std::int64_t elements);

}  // namespace ddl
