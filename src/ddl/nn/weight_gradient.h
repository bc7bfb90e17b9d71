#pragma once

#include <ATen/ATen.h>
#include <c10/util/FunctionRef.h>

namespace ddl {

/// Within a backward pass: has `write` make the gradient of a weight where it belongs, and gives what is left for autograd to hand on: nothing where it went its way already.
/// `write` is given a tensor with the weight's sizes and strides, and whether to add to what is there. `alone`: nobody else uses the weight. Without that, and in passes that are asked for certain gradients, autograd gets a new tensor.
at::Tensor put_gradient(const at::Tensor& weight, bool alone, c10::function_ref<void(at::Tensor& to, bool adds)> write);

}  // namespace ddl
