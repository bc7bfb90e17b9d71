#pragma once

#include <cstddef>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/collective/execute.h"
#include "ddl/nn/network.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// How the parameters of one bucket lie in flat memory, packed in the bucket's order, each in the order of its own dimensions, and which part of
/// that is one worker's: part_of(elements, workers, worker), which may begin and end within a parameter.
struct ShardLayout {
  struct Parameter {
    std::size_t number;    ///< among the network's
    std::size_t offset;    ///< elements, of the first
    std::size_t elements;
    Range own;             ///< which of the parameter's elements are the worker's; empty where none are
  };
  std::vector<Parameter> parameters;
  std::size_t elements = 0;
  Range own;               ///< of the bucket
  Bucket bucket;           ///< that it is of
};

/// Of each bucket of the worker's role. Errors: unsupported for parameters that share memory, or are not dense (of a TorchScript file).
std::vector<ShardLayout> shard_layouts(const Plan& plan, int worker, Network& network);

/// The worker's elements of a parameter, out of `own`, its part of the bucket. One dimension where the parameter has one or none, else two, [1, n]: so
/// rules for vectors still know them.
at::Tensor own_part(const at::Tensor& own, const ShardLayout& layout, const ShardLayout::Parameter& which, const at::Tensor& parameter);

}  // namespace ddl
