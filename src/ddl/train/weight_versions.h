#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/nn/network.h"
#include "ddl/train/optimizer.h"

namespace ddl {

/// Weights of several moments, where a step is computed with those that are some updates old (weight stashing).
/// Version v is what v updates made. An update writes to a copy of the newest as long as anybody may still need that, and in place otherwise.
/// Source:  Narayanan et al., PipeDream, SOSP 2019, section 3.3; Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021.
class WeightVersions {
 public:
  /// Batch b is computed with version b - staleness, or 0; forwards run at least `least_ahead` batches ahead of updates. Both are kept by reference.
  WeightVersions(Network& network, Optimizer& optimizer, int staleness, int least_ahead);

  /// Lets the network compute with the version that a batch is due.
  void use_for(std::int64_t batch);
  void use_newest();
  /// Before update number `number`, from 0 on, or before a further part of it. `in_flight`: whether some batch that was computed with the newest version has its backward to come.
  void before_update(std::int64_t number, bool in_flight);

  /// Of versions that are kept beside the newest for forwards to come.
  std::int64_t bytes() const;

 private:
  using Weights = std::vector<at::Tensor>;

  Network& network_;
  Optimizer& optimizer_;
  int staleness_, least_ahead_;
  std::int64_t newest_ = 0;
  std::map<std::int64_t, Weights> versions_;
};

}  // namespace ddl
