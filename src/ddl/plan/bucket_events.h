#pragma once

#include <map>
#include <utility>
#include <vector>

#include "ddl/plan/plan.h"

namespace ddl {

/// Which task raises the event of a role's bucket: backward does while it runs, the last of the bucket's stage in a step or, of a bucket that is complete after every pass, each. The role
/// outlives it.
class BucketEvents {
 public:
  BucketEvents(const Plan& plan, const Role& role);

  /// The task that raises what `task` waits for, or kNone. Of a bucket of several stages that is the last backward of all.
  int raised_by(const Task& task) const;

 private:
  const Role& role_;
  std::vector<int> last_backward_;                ///< by stage
  std::map<std::pair<int, int>, int> backwards_;  ///< by stage and micro-batch, where a bucket is complete after each
};

}  // namespace ddl
