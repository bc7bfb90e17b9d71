#pragma once

#include <ATen/ATen.h>

namespace ddl {

/// `body(T{})` with the element type of a tensor of fp32 or fp64.
template <typename Body>
void with_type(const at::Tensor& tensor, Body&& body) {
  if (tensor.scalar_type() == at::kDouble)
    body(double{});
  else
    body(float{});
}

/// Of a tensor of the same type that autograd does not see and whose elements lie one after the other.
inline at::TensorOptions plain_options(const at::Tensor& like) { return like.options().requires_grad(false).memory_format(at::MemoryFormat::Contiguous); }

}  // namespace ddl
