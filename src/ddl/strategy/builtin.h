#pragma once

#include <functional>
#include <vector>

#include "ddl/core/registry.h"
#include "ddl/core/spec.h"
#include "ddl/nn/graph.h"
#include "ddl/plan/plan.h"

namespace ddl {

/// What a strategy reads. Bytes are counted with `element_bytes` per parameter.
struct StrategyInput {
  const ModelGraph& graph;
  int workers = 1;
  std::int64_t batch = 1;           ///< global: samples of a step, of all workers together
  std::int64_t element_bytes = 4;
  Spec spec;                        ///< the strategy's name and options
  /// Parameters in the order in which backward completes their gradients; empty: assume the reverse of the network's.
  std::vector<int> gradient_order = {};
  int micro_batches = 1;            ///< of each worker's part of the batch, one after the other; exchanged after the last
  int optimizer_tensors = 1;        ///< kept by the optimizer for each parameter
  /// Whether an update reads more of the gradient than its own bucket's: a norm to clip, a check that all is finite.
  bool whole_gradient = false;
  /// Measured seconds of each layer for one micro-batch; empty: estimated from FLOPs.
  std::vector<double> forward_seconds = {}, backward_seconds = {};
  bool channels_last = false;       ///< maps lie so; the backward of a convolution then has its weight in orders of oneDNN's besides
  bool own_kernels = false;         ///< workers compute by the fast kernels of a processor: nn/matrix_products.h, and a loss without probabilities
  bool mixed = false;               ///< layers compute in 16 bits where that is safe, as under torch.autocast: what they make is narrower than parameters (value_widths.h)
  bool widens = false;              ///< own kernels of bf16 on processors that do not multiply it: factors of products are made fp32 first (widened_factors.h)
  int threads = 1;                  ///< that compute for a worker: of that with most
  bool parameter_norms = false;     ///< an update reads norms of whole parameters (NormsOfParts in train/optimizer.h)
  /// What a strategy takes where its option `recompute` is not told: whether activations are computed again. Those without the option plan
  /// their one stage as run again in segments (Recipe::recompute).
  bool recompute = false;
  // In the user's words, for errors: what asks for `whole_gradient` ("clip 1", "precision fp16"), and which optimizer it is.
  std::string whole_gradient_word = "clipping or fp16";
  std::string optimizer_word = "such an optimizer";
};

/// A pure function to a Plan. Errors: invalid_argument for unknown options and impossible numbers of workers.
using Strategy = std::function<Plan(const StrategyInput&)>;

/// Samples of the worker that has the most, where so many have a part of the batch each.
std::int64_t local_batch(const StrategyInput& input, int shares);

/// single, data, model, pipeline, tensor, sharded, hybrid, local, parameter-server.
Registry<Strategy> builtin_strategies();

Plan single(const StrategyInput& input);
Plan data_parallel(const StrategyInput& input);
Plan model_parallel(const StrategyInput& input);
Plan pipeline(const StrategyInput& input);
Plan tensor_parallel(const StrategyInput& input);
Plan sharded(const StrategyInput& input);
Plan hybrid(const StrategyInput& input);
Plan local_sgd(const StrategyInput& input);
Plan parameter_server(const StrategyInput& input);

/// Cuts parameters, taken in `order`, into buckets: one is closed as soon as it holds its limit, `first` bytes for the
/// first and `cap` for the others, so that a bucket overshoots by less than one parameter. Parameters are never split.
/// Source: c10d::compute_bucket_assignment_by_size in PyTorch 2.13.
std::vector<Bucket> assign_buckets(const std::vector<std::int64_t>& bytes, const std::vector<int>& order,
                                   std::int64_t first, std::int64_t cap);

}  // namespace ddl
