#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddl/core/json.h"

namespace ddl {

/// Finds the size of gradients' buckets with which a run's own steps are fastest: tries each size for some steps, there and back so that what changes meanwhile hits all alike, and takes the one whose median step is least; the
/// standard one where none beats it by more than a hundredth.
///
/// Every worker has one, and all take the same: what counts is the slowest worker of each step, which they tell each other once.
/// Threads: one caller.
class BucketTuner {
 public:
  /// `standard`: of `sizes`. `steps`: that the run still has; with too few nothing is tried.
  BucketTuner(std::vector<std::int64_t> sizes, std::int64_t standard, std::int64_t steps);

  bool tries() const { return next_ < turns_.size(); }
  /// Of the next step while it tries, then the one it took. Bytes.
  std::int64_t size() const { return sizes_[tries() ? turns_[next_] : taken_]; }
  /// What the step with that size took, seconds.
  void add(double seconds);
  /// Of all steps in their order, to be replaced by what the slowest worker of each took. Errors: internal while it still tries.
  std::vector<double>& seconds();
  /// Takes the best. After that size() is final.
  void settle();
  /// Steps that were spent; what each size took; which was taken. docs/record.md, "bucket_tuning".
  Json json() const;

 private:
  std::vector<double> counted(std::size_t size) const;

  std::vector<std::int64_t> sizes_;
  std::size_t standard_ = 0, taken_ = 0, next_ = 0;
  std::vector<std::size_t> turns_;  ///< by step: which size
  std::vector<bool> counts_;        ///< by step: not the first with buckets that were just made
  std::vector<double> seconds_;
};

}  // namespace ddl
