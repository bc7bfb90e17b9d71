#pragma once

#include <string>
#include <vector>

#include "ddl/report/comparison.h"

namespace ddl {

/// What a group of runs says, in one sentence: "Two workers over shm train lenet 1.62x as fast as one; 21 % of each
/// step is exposed communication." Speaks of ddlbench's own runs where there are any, and claims no difference that
/// the intervals do not carry. Empty for a group in which nothing succeeded.
std::string finding(const RunGroup& group);

/// "1 of 6 runs failed." and the like; empty where all went well.
std::string failures(const std::vector<RunView>& views);

struct StepShare {
  Cause cause;
  double share = 0;   ///< of a step's wall time, rounded to 0.1 %
};
/// The ledger's mean over the workers, largest first, the residual last. The rounded shares add up to what they are
/// shares of: exactly 100.0 % (largest-remainder rounding).
std::vector<StepShare> shares(const RunView& run);

/// Where one run's time went, in plain English.
std::string where_time_went(const RunView& run);

/// What a cause means, in half a sentence, for legends and tables.
std::string_view meaning(Cause cause);

}  // namespace ddl
