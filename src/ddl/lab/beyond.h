#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/lab/predict_job.h"

namespace ddl {

/// What of a prediction lies outside of what was measured of a machine, and what that adds to how far it may be off.
struct Beyond {
  std::vector<std::string> words;  ///< one for each; empty: all is inside
  double ranks = 0;                ///< doublings between the ranks of the widest collective and those nearest to it that were measured
};

/// `part`: what worker 0 has of the network. Of a datasheet nothing is measured, and nothing beyond that.
Beyond beyond_measured(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Json& machine);

}  // namespace ddl
