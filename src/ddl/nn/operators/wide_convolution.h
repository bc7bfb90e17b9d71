#pragma once

#include <ATen/ATen.h>

#include "ddl/nn/operators/operator.h"

namespace ddl {

/// A convolution of bf16 maps by ATen's in fp32, forward and backward: what it makes is rounded once, at its end. Where the processor does not multiply in bf16 itself (multiplies_bf16()), neither oneDNN nor ATen has more for bf16 than loops in software, which take 10 to 80 times
/// as long. decisions/051.
/// `maps`: [n, channels, height, width], bf16. `weight`: fp32 or bf16, whose gradient comes in its own type; it is not rounded to bf16 first.
at::Tensor convolve_widely(const at::Tensor& maps, const at::Tensor& weight, const at::Tensor& bias, const Attributes& of, at::IntArrayRef padding);

/// Whether it is for that.
bool takes_wide_convolution(const at::Tensor& maps, const NetworkOptions& options);

}  // namespace ddl
