#pragma once

#include <cstdint>
#include <vector>

#include "ddl/strategy/builtin.h"

namespace ddl {

/// Whether a layer is a product with weights, which autocast computes in 16 bits.
bool multiplies(const Layer& layer);

/// What layers compute in 16 bits under torch.autocast, and what that leaves in memory; of full precision all is `element_bytes` wide and nothing is kept besides. Told without LibTorch, whose own answer is train/value_types.h: plans are made by processes that may still fork.
/// Products (convolutions, linear layers, attention) read and make narrow values, and keep narrow copies of wide ones that they read, and of their weights; norms of images, activations and pools make what they are given; norms of words are wide but by the fast kernels of a processor; sums are as wide as the wider summand; tables' rows are wide.
struct ValueWidths {
  explicit ValueWidths(const StrategyInput& input);

  std::vector<std::int64_t> bytes;        ///< by layer, of an element of what it makes
  std::vector<std::int64_t> copied_bytes; ///< by layer, of a sample: copies that it keeps in the place of wide inputs; 0: it keeps those
  /// Of a sample: what a layer keeps besides inputs and output (Keeps::own()), as who computes it keeps it.
  std::int64_t extra(int layer, const Keeps& keeps) const;
  /// By layer: the narrow copy of its weights, from its forward to its backward, for that many samples.
  std::int64_t weights(int layer, std::int64_t samples) const;

 private:
  const StrategyInput& input_;
};

}  // namespace ddl
