#pragma once

#include <vector>

#include "ddl/strategy/partition/partition.h"

namespace ddl {

/// Sums over runs of layers [first, last), in constant time but for tied parameters. Layers are counted without inputs; after keep(), in
/// blocks of neighbouring ones.
class Intervals {
 public:
  explicit Intervals(const LayerCosts& costs);

  int size() const { return static_cast<int>(layers_.size()) - 1; }
  double seconds(int first, int last) const { return over(seconds_, first, last); }  ///< of a micro-batch, forward and backward
  double flops(int first, int last) const { return over(flops_, first, last); }      ///< of a sample, forward and backward
  /// Parameters that train and that these layers use, tied ones once.
  double trained_bytes(int first, int last) const { return over(trained_, first, last) + tied(first, last, true); }
  /// Parameters, gradients, the optimizer's tensors, and activations of `in_flight` micro-batches.
  double own_bytes(int first, int last, double in_flight) const;
  /// The same and the values received, which a stage holds as leaves of its part of autograd.
  double held_bytes(int first, int last, double in_flight) const;
  /// What crosses the cut before `place`, forward and backward, of a micro-batch.
  double crossing_bytes(int place) const;

  /// Only these starts of blocks are left; the first is 0.
  void keep(const std::vector<int>& starts);
  /// One worker in each stage.
  Partition partition(const std::vector<int>& starts, double largest) const;
  int layer(int place) const { return layers_[static_cast<std::size_t>(place)]; }

 private:
  double over(const std::vector<double>& sums, int first, int last) const {
    return sums[static_cast<std::size_t>(layer(last))] - sums[static_cast<std::size_t>(layer(first))];
  }
  double tied(int first, int last, bool trainable) const;

  const LayerCosts& costs_;
  std::vector<int> layers_;  ///< the first layer of each block, and the number of all
  std::vector<double> seconds_, flops_, trained_, frozen_, kept_;
};

/// Errors: invalid_argument unless the network has at least `stages` layers.
void require_stages(const PartitionInput& input, int layers);

}  // namespace ddl
