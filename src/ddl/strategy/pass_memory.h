#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "ddl/nn/matrix_products.h"
#include "ddl/nn/sharing.h"
#include "ddl/plan/plan.h"
#include "ddl/strategy/builtin.h"
#include "ddl/strategy/value_widths.h"
#include "ddl/strategy/widened_factors.h"

namespace ddl {

/// What the passes of one micro-batch through some layers hold, beside parameters and gradients that were there before. Bytes.
struct PassMemory {
  std::int64_t given = 0;        ///< came from other layers, and is kept until backward
  std::int64_t made = 0;         ///< kept besides from forward to backward: by autograd, by the loss, and of what one segment makes for a later one
  std::int64_t first_making = 0;  ///< of one weight's gradient while it comes to be, at most, in the first backward
  std::int64_t later_making = 0;
  std::int64_t gradients = 0;    ///< of parameters whose gradient is in no bucket: there from the first backward on
  std::int64_t first_peak = 0;   ///< the most during the first backward: what is kept and not yet freed, gradients of values on their way, gradients of parameters
  std::int64_t later_peak = 0;   ///< during a later one, whose gradients of parameters are added to those that are there
};

/// Tells of any stage of a network. Backward is followed layer by layer: a value is freed when the first layer that keeps it has gone back (or the first segment that was given it), its gradient
/// is there from its last reader's backward to its own, and one weight's gradient at a time is in the making. So the worst moment is found
/// where activations and the gradients of large last layers meet: neither at the beginning nor at the end of backward for networks like AlexNet.
///
/// While a gradient comes to be, before it is where it belongs, there is autograd's own besides and, of a convolution whose maps lie channels last, two copies in the order in which oneDNN computes. Products
/// of our own kernels (nn/matrix_products.h) add it to where it belongs, if that is there, as look-ups add rows of a table, and have at most what a window sees beside it. The loss makes its own gradient and that of the logits; our own kernel the latter alone.
class NetworkMemory {
 public:
  /// `input` must outlive it.
  explicit NetworkMemory(const StrategyInput& input);

  /// `segments`: ascending layers that one worker takes one after the other, each with a graph of autograd of its own. `samples`: of the micro-batch.
  /// `in_bucket`: parameters whose gradients are taken out as soon as they are there. `loss`: computed by the same worker, where the last layer is among them.
  PassMemory passes(const std::vector<Stage>& segments, std::int64_t samples, const std::set<int>& in_bucket, bool loss = true) const;

  /// The same of a whole network whose segments but the last are run again in backward (nn/recompute_cuts.h): each keeps what it was given alone until its own backward, and
  /// has then what it would have kept, and what it makes for later ones, once more.
  PassMemory passes_in_segments(const std::vector<Stage>& segments, std::int64_t samples, const std::set<int>& in_bucket) const;

 private:
  friend class Walk;
  std::int64_t bytes(int layer, std::int64_t samples) const;
  /// Of one parameter's gradient, by a layer that uses it. `has_place`: where it belongs there is memory already, and whoever computes it knows.
  std::int64_t making(int parameter, int by, std::int64_t samples, bool has_place) const;
  /// What its product works in; nothing where factors are multiplied as they are.
  WidenedFactors widened(int layer, std::int64_t samples) const;
  /// Whether gradients of a layer that come go to memory that is there: a bucket's, or that of the first backward's.
  bool has_place(int parameter, bool in_bucket, bool first) const;
  /// Whether a layer reads a table that a product uses, too, and leaves rows to autograd.
  bool hands_on_rows(int layer) const;

  const StrategyInput& input_;
  std::vector<bool> learns_;
  std::vector<Sharing> sharing_;      ///< by layer
  std::vector<bool> summed_;
  std::vector<Keeps> keeps_;          ///< by layer, as who computes it keeps it
  ValueWidths widths_;
  std::vector<std::int64_t> parameter_bytes_;
  std::vector<ParameterOwner> owners_;
  std::vector<int> first_parameter_;  ///< by layer
  std::vector<int> memory_;           ///< by layer, the layer that made its output's memory: what it is called here
  std::vector<int> last_reader_;      ///< by layer that made it; the loss is a reader behind all layers
};

}  // namespace ddl
