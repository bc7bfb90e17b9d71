#pragma once

#include <ATen/core/Tensor.h>

namespace ddl {

/// `body(T{})` with the element type of a tensor of fp32 or fp64.
template <typename Body>
void with_type(const at::Tensor& tensor, Body&& body) {
  if (tensor.scalar_type() == at::kDouble)
    body(double{});
  else
    body(float{});
}

}  // namespace ddl
