#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/measure/ledger.h"
#include "ddl/plan/plan.h"
#include "ddl/train/control.h"
#include "ddl/train/job.h"

namespace ddl {

/// A span of a plan's trace, as docs/record.md has it, its times since `start`.
Json span_json(const Plan& plan, const Span& span, Nanoseconds start);

/// What all workers said of their steps. The spans of a step are folded into ledgers as soon as every worker has told
/// of it, and then dropped, so that a long run stays small; those of the last steps are kept for the trace.
class StepBook {
 public:
  StepBook(int ranks, TraceMode mode);

  void add(int rank, const std::vector<StepRecord>& steps, const std::vector<Span>& spans);

  int ranks() const { return static_cast<int>(ranks_.size()); }
  /// Steps that every rank has told of, from the first.
  std::int64_t complete() const { return complete_; }
  const std::vector<StepRecord>& steps(int rank) const { return ranks_[static_cast<std::size_t>(rank)].steps; }
  /// The loss of a complete step: the sum of the workers' parts.
  double loss(std::int64_t step) const;
  /// Samples of all workers in a complete step.
  std::int64_t samples(std::int64_t step) const;

  /// The sum of ledgers over complete steps [first, complete()).
  Ledger ledger(int rank, std::int64_t first) const;
  /// The sum over the same steps.
  Activity activity(int rank, std::int64_t first) const;
  /// Spans of the kept steps, as docs/record.md has them; the plan says what tasks are called. Times since the first of these steps began.
  Json trace(const Plan& plan) const;
  /// When each rank's kept steps began and ended, on the same scale.
  Json trace_steps() const;

 private:
  struct Rank {
    std::vector<StepRecord> steps;
    std::vector<Ledger> ledgers;
    std::vector<Activity> activities;
  };
  void settle();
  Nanoseconds trace_start() const;

  TraceMode mode_;
  std::vector<Rank> ranks_;
  std::map<std::int64_t, std::vector<Span>> open_;
  std::map<std::int64_t, std::vector<Span>> kept_;
  std::int64_t complete_ = 0;
};

}  // namespace ddl
