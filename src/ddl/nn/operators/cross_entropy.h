#pragma once

#include <ATen/ATen.h>

namespace ddl {

/// The sum over rows of the cross entropy of logits [rows, classes], fp32 or bf16 and contiguous on the processor, as at::cross_entropy_loss has it of the same numbers in fp32; the sum is fp32. Logits are read once each way, and nothing as large is made but
/// their gradient, in their type.
/// Errors: invalid_argument for a class that there is none of.
at::Tensor fast_cross_entropy(const at::Tensor& logits, const at::Tensor& expected, std::int64_t ignored, double smoothing);

}  // namespace ddl
