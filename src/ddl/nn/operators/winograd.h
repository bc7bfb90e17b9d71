#pragma once

#include <ATen/ATen.h>

#include "ddl/nn/kernels/windows.h"
#include "ddl/nn/sharing.h"

namespace ddl {

/// A convolution with windows of 3x3, stride 1 and padding of at most 2, of maps that lie channels last, by Winograd's F(2x2, 3x3) (kernels/winograd.h), forward and both ways back: 16 products of matrices over tiles of 2x2 pixels, block of tiles by
/// block of tiles, so that what is transformed stays in cache. A node of autograd of its own, whose gradient of the weight goes where multiply()'s does. decisions/035.
///
/// `input`: [n, channels, height, width]; `weight`: [out, channels, 3, 3]; both channels last. `sharing`: put_gradient()'s.
/// Memory:  besides its result 16/9 of the weight, and a few MiB at most; in backward, where the gradient of the weight is made, as much again. It keeps what a convolution keeps.
/// Numbers: sums of transformed values are rounded more than those of the values: in fp32 within 2e-6 of the largest element, or four times as far off as ATen's own (winograd_test.cpp). What is not a finite number spreads to the pixels of its tiles
///          that do not see it.
at::Tensor convolve_by_tiles(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, Sharing sharing, const Windows& windows, bool rectifies = false);

}  // namespace ddl
