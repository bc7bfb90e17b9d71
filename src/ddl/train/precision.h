#pragma once

#include <cstdint>
#include <string>

#include "ddl/core/error.h"

namespace ddl {

/// Bytes of a parameter, and of its gradient and state. bf16 and fp16 are mixed precision: parameters, gradients and what
/// the optimizer keeps are fp32, layers compute in 16 bits where that is safe.
/// Errors: unsupported for what the devices of this build cannot compute in.
inline std::int64_t element_bytes(const std::string& precision) {
  if (precision == "fp32" || precision == "bf16" || precision == "fp16") return 4;
  if (precision == "fp64") return 8;
  if (precision == "tf32")
    throw Error(Code::unsupported, "[precision] unsupported: tf32 is a format of NVIDIA's tensor cores (Ampere and later) and all workers are on cpu; "
                                   "expected fp32, bf16, fp16 or fp64");
  throw Error(Code::unsupported, fmt::format("[precision] unsupported: '{}'; expected fp32, bf16, fp16 or fp64", precision));
}

/// Whether the loss is multiplied before backward, so that small gradients are not lost in 16 bits.
inline bool scales_loss(const std::string& precision) { return precision == "fp16"; }

}  // namespace ddl
