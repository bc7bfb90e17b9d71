#pragma once

#include <memory>
#include <vector>

#include "ddl/predict/price.h"

namespace ddl {

/// One measured collective. `group` is what ran; where it is null, `counts` are what it came to (one_shot_counts()).
struct FitSample {
  std::size_t bytes = 0;
  double seconds = 0;
  std::shared_ptr<const ScheduleGroup> group = {};
  Counts counts = {};
};

struct Fit {
  WireCost cost;
  std::vector<double> seconds;  ///< of each sample, priced
  double error = 0;             ///< mean of |priced - measured| / measured
};

/// What a sample costs at these unit costs.
Price price(const FitSample& sample, const UnitCosts& costs);

/// Unit costs by non-negative least squares of relative errors (Lawson & Hanson 1974; with six unknowns every subset
/// is tried). Each measured size has costs of its own, between two sizes both count, by how near each is along the logarithm, and the first reaches down to
/// 0, the last up without end: caches and protocols change within a factor of eight, and many algorithms at one size tell
/// the unit costs apart better than one algorithm at many. Where they cannot, all of a size asking for the same, a round costs
/// what it does at the smallest size and bytes take the rest. Which chain of rounds decides a collective's time hangs
/// on the costs, hence a few turns of pricing and fitting.
/// Errors: invalid_argument without samples, or for a time that is not positive.
Fit fit(const std::vector<FitSample>& samples);

/// How far the model is off where it was not fitted: the mean of |priced - measured| / measured over the samples, each priced with
/// the costs of a fit to the others of its size. Negative where no size has two samples.
double held_out_error(const std::vector<FitSample>& samples);

}  // namespace ddl
