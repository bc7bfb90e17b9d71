#pragma once

#include <optional>

#include <ATen/ATen.h>

#include "ddl/nn/kernels/windows.h"
#include "ddl/nn/operators/operator.h"
#include "ddl/nn/sharing.h"

namespace ddl {

/// One product of matrices each for a value, the gradient of what it was computed from, and that of the weight: a linear layer, or a convolution of maps that lie channels last. As a node of autograd of its own it adds
/// the gradient of a weight to what other passes left there (in the parameter's grad(), or in its GradientPlace) as it multiplies: no gradient is made, zeroed, read again or copied. decisions/033.
///
/// `input`: [..., features], or [n, channels, height, width] with `windows`. `weight`: [out, features], or [out, channels, kernel height, kernel width] channels last. `sharing`: put_gradient()'s.
/// An input of bf16 is multiplied by the weight in bf16, and gradients of the weight and the bias come in the weight's type.
/// Numbers: of one pass ATen's of the same product; where it adds, a gradient is rounded once less.
/// `rectifies`: and a ReLU of it, in the same pass over what is made.
at::Tensor multiply(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, Sharing sharing, const std::optional<Windows>& windows = {}, bool rectifies = false);

/// Whether tensors are for multiply(): on the processor, of one type or, under autocast, an input of bf16. Others are ATen's.
bool takes_product(const at::Tensor& input, const at::Tensor& weight, const NetworkOptions& options);

/// The input of a product in the type in which it is computed: under autocast to bf16 what comes in fp32 is made narrow, as ATen's would be.
at::Tensor narrowed(const at::Tensor& input, const NetworkOptions& options);

}  // namespace ddl
