#pragma once

#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/nn/network.h"

namespace ddl {

/// Running means and variances of batch norm that are updated once a step, with the mean and the variance over the samples of all its micro-batches, as one
/// forward of the whole batch would have done. Within a step normalisation is of each micro-batch alone all the same.
///
/// Batch norm itself is left as it is: before each forward its running statistics are set to zero, so that momentum times those of the micro-batch
/// is what it leaves there. Those are added up in fp64 by the rule of Chan, Golub & LeVeque (1979).
/// Source:  Huang et al., GPipe, NeurIPS 2019, section 2; Kim et al., torchgpipe, 2020, section 3.
class DeferredStatistics {
 public:
  /// Keeps the network by reference.
  explicit DeferredStatistics(Network& network);

  /// Running statistics are not to be read from here on.
  void begin_step();
  /// After a forward of layers [first, last) on so many samples.
  void take(int first, int last, std::int64_t samples);
  /// They are up to date.
  void end_step();

 private:
  /// Of one batch norm that the network has.
  struct Norm {
    std::size_t buffer;         ///< its running mean; its variance follows
    int layer;
    double momentum;
    std::int64_t places;        ///< values of a channel in a sample
    double count = 0;           ///< values of a channel so far
    at::Tensor mean = {}, squares = {};    ///< so far; squares of what they differ from the mean by
    at::Tensor before[2] = {};  ///< the running statistics
  };
  at::Tensor buffer(const Norm& norm, int which) const;

  Network& network_;
  std::vector<Norm> norms_;
  bool open_ = false;
};

}  // namespace ddl
