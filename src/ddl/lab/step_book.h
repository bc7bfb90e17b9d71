#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/measure/ledger.h"
#include "ddl/train/control.h"
#include "ddl/train/job.h"

namespace ddl {

/// What all workers said of their steps. The spans of a step are folded into ledgers as soon as every worker has told
/// of it, and then dropped, so that a long run stays small; those of the last steps are kept for the trace.
class StepBook {
 public:
  StepBook(int ranks, TraceMode mode);

  void add(int rank, const std::vector<StepRecord>& steps, const std::vector<Span>& spans);

  /// Steps that every rank has told of, from the first.
  std::int64_t complete() const { return complete_; }
  const std::vector<StepRecord>& steps(int rank) const { return ranks_[static_cast<std::size_t>(rank)].steps; }
  /// The loss of a complete step: the sum of the workers' parts.
  double loss(std::int64_t step) const;
  /// Samples of all workers in a complete step.
  std::int64_t samples(std::int64_t step) const;

  /// The sum of ledgers over complete steps [first, complete()).
  Ledger ledger(int rank, std::int64_t first) const;
  /// Seconds in which the communication stream worked while the compute stream went on, over the same steps.
  double overlapped_communication(int rank, std::int64_t first) const;
  /// As docs/record.md has it; `names` gives a task's label by its number.
  Json trace(const std::vector<std::vector<std::string>>& names) const;

 private:
  struct Rank {
    std::vector<StepRecord> steps;
    std::vector<Ledger> ledgers;
    std::vector<double> overlapped;
  };
  void settle();

  TraceMode mode_;
  std::vector<Rank> ranks_;
  std::map<std::int64_t, std::vector<Span>> open_;
  std::map<std::int64_t, std::vector<Span>> kept_;
  std::int64_t complete_ = 0;
};

}  // namespace ddl
