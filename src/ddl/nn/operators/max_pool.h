#pragma once

#include <ATen/ATen.h>

#include "ddl/nn/graph.h"
#include "ddl/nn/network.h"

namespace ddl {

/// Whether a max pool of these maps is for most_of_windows(): on the processor, in the type of the network's parameters or, under autocast, in bf16, in either memory format. Others are ATen's.
bool takes_max_pool(const Attributes& of, const at::Tensor& maps, const NetworkOptions& options);

/// The most that each window sees; `rectifies`: of what a ReLU makes of the maps. `padding`: that is still to come, the same on both sides.
/// What autograd keeps: a byte for each element of the output.
at::Tensor most_of_windows(const Attributes& of, const at::Tensor& maps, const Pair& padding, bool rectifies);

}  // namespace ddl
