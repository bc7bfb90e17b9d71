#pragma once

#include <ATen/core/Tensor.h>

#include "ddl/nn/found_openblas.h"

namespace ddl {

// Large products of fp32 by OpenBLAS, where there is one (found_openblas.h). decisions/067.

/// Whether it takes a factor, or several [n, …], as they lie: what is in a row, or what is in a column, one beside the other. What is made has to lie by rows.
bool lies_for_openblas(const at::Tensor& matrix);
bool lies_by_rows(const at::Tensor& matrix);
/// `to` = left right, or plus that; [rows, depth] [depth, columns], or as many of each [n, …], of fp32. On the calling thread alone. The same bits wherever memory lies.
void by_openblas(at::Tensor& to, const at::Tensor& left, const at::Tensor& right, bool adds);

}  // namespace ddl
