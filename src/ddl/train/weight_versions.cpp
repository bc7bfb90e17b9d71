#include "ddl/train/weight_versions.h"

#include <algorithm>

#include <c10/core/GradMode.h>

namespace ddl {

WeightVersions::WeightVersions(Network& network, Optimizer& optimizer, int staleness, int least_ahead)
    : network_(network), optimizer_(optimizer), staleness_(staleness), least_ahead_(least_ahead) {
  versions_[0] = network.parameters();
}

void WeightVersions::use_for(std::int64_t batch) {
  // A stage without weights has no updates.
  if (!versions_.at(newest_).empty()) network_.use(versions_.at(std::max<std::int64_t>(0, batch - staleness_)));
}

void WeightVersions::use_newest() { network_.use(versions_.at(newest_)); }

void WeightVersions::before_update(std::int64_t number, bool in_flight) {
  if (newest_ == number + 1) return;
  // The next forward is of a batch that is so far ahead of the next update, or further.
  const std::int64_t oldest = std::max<std::int64_t>(0, number + 1 + least_ahead_ - staleness_);
  const auto weights = versions_.at(newest_);
  newest_ = number + 1;
  if (in_flight || oldest < newest_) {
    const c10::NoGradGuard guard;
    Weights copies;
    for (const auto& weight : weights) {
      copies.push_back(weight.detach().clone().requires_grad_(true));
      copies.back().mutable_grad() = std::move(weight.mutable_grad());
    }
    versions_[newest_] = std::move(copies);
  } else {
    versions_[newest_] = weights;
  }
  versions_.erase(versions_.begin(), versions_.lower_bound(oldest));
  optimizer_.use(versions_.at(newest_));
  use_newest();
}

std::int64_t WeightVersions::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [number, weights] : versions_)
    if (number != newest_)
      for (const auto& weight : weights) sum += static_cast<std::int64_t>(weight.nbytes());
  return sum;
}

}  // namespace ddl
