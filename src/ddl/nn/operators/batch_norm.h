#pragma once

#include <cstddef>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/nn/operators/operator.h"

namespace ddl {

/// A batch norm in training and what follows it, computed in one pass over memory each way: an addition, an activation, or both.
struct NormaliseChain {
  std::size_t layers = 1;        ///< how many, from the batch norm on
  const Layer* activation = nullptr;
  at::Tensor added = {};         ///< what the batch norm's output is added to
};

/// Whether a batch norm in training is for normalise_and(): of maps that lie channels last, on the processor, in the type of its parameters or, under autocast, in bf16. Others are ATen's.
bool takes_batch_norm(const Layer& layer, const at::Tensor& maps, const NetworkOptions& options);

/// What of layers [at, last) goes together with the batch norm `at`: layers of which each is read by the next alone. `values` has their inputs.
NormaliseChain normalise_chain(const std::vector<Layer>& layers, const std::vector<std::size_t>& last_use, std::size_t at, std::size_t last, const std::vector<at::Tensor>& values);

/// Updates the running statistics. What autograd keeps: the maps, and where something is added the output.
/// Numbers: of one layer alone and of several together the same bits. Against ATen's, sums over rows differ by rounding (kernels/batch_norm.h).
at::Tensor normalise_and(const NormaliseChain& chain, const Layer& layer, const LayerTensors& own, const at::Tensor& maps);

}  // namespace ddl
