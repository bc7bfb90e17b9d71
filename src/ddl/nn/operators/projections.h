#pragma once

#include <utility>

#include <ATen/ATen.h>

#include "ddl/nn/sharing.h"

namespace ddl {

/// What attends to others: queries of `asking` [n, places, in] by the first third of a weight's rows [3 features, in], keys with values of `known` [n, seen, in] by the rest; [n, places, features] and [n, seen, 2 features].
/// As multiply() of each, but for one node of autograd, which makes the gradient of the whole weight where that belongs: of parts by themselves it would be zeroed, copied and added up. Tensors are for multiply() (takes_product()).
std::pair<at::Tensor, at::Tensor> project_parts(const at::Tensor& asking, const at::Tensor& known, const at::Tensor& weight, const at::Tensor& bias, Sharing sharing);

}  // namespace ddl
