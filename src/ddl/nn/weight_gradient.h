#pragma once

#include <cstdint>

#include <ATen/ATen.h>
#include <c10/util/FunctionRef.h>

#include "ddl/nn/sharing.h"

namespace ddl {

/// Whether the backward pass that this thread runs was asked for certain gradients: it returns them, and adds them to nothing.
bool returns_gradients();

/// Whether somebody gathers a weight's gradients himself.
bool has_hook(const at::Tensor& weight);

/// Within a backward pass: has `write` make the gradient of a weight where it belongs, and gives what is left for autograd to hand on: nothing where it went its way already.
/// `write` is given a tensor with the weight's sizes and strides, and whether to add to what is there. `widened`: bytes of it that are made in 16 bits elsewhere and written there from that (widened_bytes() of a product).
/// In passes that are asked for certain gradients, and where gradients are gathered and more than this one and rows of tables are made
/// (`sharing`: who else uses the weight), autograd gets a new tensor.
at::Tensor put_gradient(const at::Tensor& weight, Sharing sharing, c10::function_ref<void(at::Tensor& to, bool adds)> write, std::int64_t widened = 0);

}  // namespace ddl
