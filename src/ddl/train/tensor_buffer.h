#pragma once

#include <cstddef>

#include <ATen/ATen.h>

#include "ddl/collective/execute.h"

namespace ddl {

/// Of what communicators carry. Errors: unsupported for types that are neither floating point nor of theirs.
ElementType element_type(at::ScalarType type);

/// A parameter's, which optimizers and servers compute with: fp32 or fp64. Errors: unsupported.
ElementType parameter_type(const at::Tensor& parameter);

/// A tensor's memory, dense in whatever order of dimensions. The tensor outlives it. Errors: those of element_type().
Buffer buffer_of(const at::Tensor& tensor);

/// So many bytes and what fills them up to a multiple of 64, from which the next tensor begins.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace ddl
