#include "ddl/plan/bucket_events.h"

#include <algorithm>

#include "ddl/core/at.h"

namespace ddl {

BucketEvents::BucketEvents(const Plan& plan, const Role& role) : role_(role), last_backward_(plan.stages.size(), kNone) {
  const bool every_pass = std::any_of(role.buckets.begin(), role.buckets.end(), [](const Bucket& bucket) { return bucket.every_pass; });
  for (std::size_t t = 0; t < role.tasks.size(); ++t) {
    const auto& task = role.tasks[t];
    if (task.kind != TaskKind::backward && task.kind != TaskKind::backward_weight) continue;
    last_backward_[at(task.stage)] = static_cast<int>(t);
    if (every_pass) backwards_[{task.stage, task.micro_batch}] = static_cast<int>(t);
  }
}

int BucketEvents::raised_by(const Task& task) const {
  const auto& bucket = role_.buckets[at(task.waits_for)];
  if (bucket.stage == kNone) return *std::max_element(last_backward_.begin(), last_backward_.end());
  if (!bucket.every_pass) return last_backward_[at(bucket.stage)];
  const auto found = backwards_.find({bucket.stage, task.micro_batch});
  return found == backwards_.end() ? kNone : found->second;
}

}  // namespace ddl
