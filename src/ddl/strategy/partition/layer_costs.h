#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddl/nn/graph.h"
#include "ddl/strategy/partition/crossing.h"

namespace ddl {

/// What layers are counted with.
struct CostOptions {
  std::int64_t samples = 1;        ///< of one micro-batch
  std::int64_t element_bytes = 4;  ///< of parameters
  std::vector<std::int64_t> value_bytes = {};  ///< by layer, of an element of what it makes (ValueWidths); empty: element_bytes
  double gradients = 1;            ///< tensors of gradients kept for each parameter that trains
  double optimizer_tensors = 1;    ///< kept by the optimizer for each parameter that trains
  /// Measured seconds of each layer for one micro-batch; empty: estimated.
  std::vector<double> forward = {}, backward = {};
  /// What estimated times are divided by. 1: they are in units of a floating-point operation, good to compare layers with each other
  /// but not with communication.
  double flops_per_second = 1;
};

/// A parameter that a layer uses, its own or a borrowed one, with the nearest layer before that uses it too.
struct ParameterUse {
  Borrowed parameter = {};
  int layer = 0;
  int before = -1;  ///< -1: none
  std::int64_t bytes = 0;
  bool trainable = true;
};

struct PartitionLayer {
  double forward = 0, backward = 0;  ///< seconds of one micro-batch
  double flops = 0;                  ///< forward and backward of one sample: backward counts twice forward where something learns, else 0
  std::int64_t parameter_bytes = 0;  ///< its own that train
  std::int64_t frozen_bytes = 0;     ///< its own that do not
  std::int64_t activation_bytes = 0; ///< that backward needs, one sample
  bool input = false;                ///< an input layer: any stage may have it, and it counts as none
};

/// What a partitioner reads of a network.
struct LayerCosts {
  std::string network = {};
  std::int64_t samples = 1;          ///< of one micro-batch
  double tensors = 3;                ///< of the size of a parameter that trains: itself, gradients, the optimizer's
  std::vector<PartitionLayer> layers = {};
  std::vector<Cut> cuts = {};        ///< before each layer
  std::vector<ParameterUse> tied = {};///< uses of parameters that more than one layer uses, but for each one's first, by its owner
};

/// Errors: invalid_argument where measured times are not one of each layer, or are not finite and at least 0; where options are not
///         positive.
LayerCosts layer_costs(const ModelGraph& graph, const CostOptions& options);

}  // namespace ddl
