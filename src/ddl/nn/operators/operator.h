#pragma once

#include <cstdint>

#include <ATen/ATen.h>
#include <c10/util/SmallVector.h>

#include "ddl/nn/graph.h"
#include "ddl/nn/network.h"
#include "ddl/nn/past.h"
#include "ddl/nn/sharing.h"

namespace ddl {

/// The tensors of one layer.
struct LayerTensors {
  std::vector<at::Tensor> parameters = {};  ///< its own, then those that it borrows
  std::vector<at::Tensor> statistics = {};
  std::vector<at::Tensor> constants = {};
  Sharing sharing = Sharing::none;          ///< of the one that it borrows, or others of it
  std::int64_t draws = -1;                  ///< its row of NetworkInput::draws
};

/// What a layer is computed from, for n samples.
struct OperatorContext {
  const Layer& layer;
  int number;                               ///< of the layer
  const LayerTensors& own;
  const c10::SmallVector<at::Tensor, 4>& inputs;
  const NetworkInput& given;
  bool training;
  const NetworkOptions& options;
  ScriptModule* script;                     ///< of a TorchScript file; else nothing
  Past* past;                               ///< where the target comes word by word; else nothing
  bool rectifies = false;                   ///< of conv2d and linear: what it makes goes through a ReLU, which is its own affair
};

/// [n, …] of inputs -> [n, …] of layer.shape. May write over its first input where layer.in_place.
using Operator = at::Tensor (*)(const OperatorContext&);

Operator operator_of(LayerKind kind);

at::Tensor convolve(const OperatorContext& c);
at::Tensor normalise_batch(const OperatorContext& c);
at::Tensor normalise_layer(const OperatorContext& c);
at::Tensor relu(const OperatorContext& c);
at::Tensor relu6(const OperatorContext& c);
at::Tensor gelu(const OperatorContext& c);
at::Tensor tanh(const OperatorContext& c);
at::Tensor sigmoid(const OperatorContext& c);
at::Tensor max_pool(const OperatorContext& c);
at::Tensor average_pool(const OperatorContext& c);
at::Tensor adaptive_average_pool(const OperatorContext& c);
at::Tensor flatten(const OperatorContext& c);
at::Tensor linear(const OperatorContext& c);
at::Tensor add(const OperatorContext& c);
at::Tensor concatenate(const OperatorContext& c);
at::Tensor scale(const OperatorContext& c);
at::Tensor drop_out(const OperatorContext& c);
at::Tensor embed(const OperatorContext& c);
at::Tensor add_positions(const OperatorContext& c);
at::Tensor attend(const OperatorContext& c);
at::Tensor run_lstm(const OperatorContext& c);
at::Tensor wait(const OperatorContext& c);
at::Tensor run_script(const OperatorContext& c);
// Of split networks, split.cpp:
at::Tensor exchange(const OperatorContext& c);
at::Tensor add_bias(const OperatorContext& c);
at::Tensor merge_moments(const OperatorContext& c);
at::Tensor take_moments(const OperatorContext& c);
at::Tensor normalise_by_moments(const OperatorContext& c);

}  // namespace ddl
