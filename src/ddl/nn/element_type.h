#pragma once

#include <type_traits>

#include <ATen/ATen.h>

#include "ddl/core/bf16.h"

namespace ddl {

/// `body(T{})` with the element type of a tensor of fp32 or fp64.
template <typename Body>
void with_type(const at::Tensor& tensor, Body&& body) {
  if (tensor.scalar_type() == at::kDouble)
    body(double{});
  else
    body(float{});
}

/// The same of values of layers, which may be of bf16 too.
template <typename Body>
void with_value_type(const at::Tensor& value, Body&& body) {
  if (value.scalar_type() == at::kBFloat16)
    body(Bf16{});
  else
    with_type(value, body);
}

/// The same of what kernels know in fp32 and bf16 alone.
template <typename Body>
void with_single_type(const at::Tensor& value, Body&& body) {
  value.scalar_type() == at::kBFloat16 ? body(Bf16{}) : body(float{});
}

/// The elements of a tensor of type T.
template <typename T>
const T* elements(const at::Tensor& of) {
  if constexpr (std::is_same_v<T, Bf16>)
    return reinterpret_cast<const Bf16*>(of.const_data_ptr<at::BFloat16>());
  else
    return of.const_data_ptr<T>();
}
/// The same, to be written.
template <typename T>
T* places(const at::Tensor& of) {
  if constexpr (std::is_same_v<T, Bf16>)
    return reinterpret_cast<Bf16*>(of.data_ptr<at::BFloat16>());
  else
    return of.data_ptr<T>();
}

/// Whether layers of such parameters are given such values: of their own type, or under autocast narrower.
inline bool computes_on(at::ScalarType parameters, at::ScalarType values) {
  return (parameters == at::kFloat || parameters == at::kDouble) && (values == parameters || (values == at::kBFloat16 && parameters == at::kFloat));
}

/// Of a tensor of the same type that autograd does not see and whose elements lie one after the other.
inline at::TensorOptions plain_options(const at::Tensor& like) { return like.options().requires_grad(false).memory_format(at::MemoryFormat::Contiguous); }

}  // namespace ddl
