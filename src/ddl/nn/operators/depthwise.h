#pragma once

#include <ATen/ATen.h>

#include "ddl/nn/operators/operator.h"

namespace ddl {

/// A convolution of bf16 maps in groups whose window moves by more than one place: ATen's, but that the gradient of the maps is found in fp32 and then rounded. oneDNN 3.12 has no kernel of its own for that of bf16 and takes 15 to 70 times as long as in
/// fp32: half of a step of MobileNetV2. decisions/044.
/// `maps`: [n, channels, height, width], bf16. `weight`: fp32 or bf16, whose gradient comes in its own type.
/// Numbers: the gradient of the maps is rounded once, at its end, where ATen's is rounded as oneDNN likes.
at::Tensor convolve_groups_apart(const at::Tensor& maps, const at::Tensor& weight, const at::Tensor& bias, const Attributes& of, at::IntArrayRef padding);

/// Whether it is for that.
bool takes_groups_apart(const at::Tensor& maps, const Attributes& of, const NetworkOptions& options);

}  // namespace ddl
