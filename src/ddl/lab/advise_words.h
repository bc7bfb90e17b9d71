#pragma once

#include <string>
#include <vector>

#include "ddl/lab/advise_job.h"

namespace ddl {

/// Whether any way of more than one worker could be predicted: else nobody knows whether that is worth it.
bool looked_at_several(const Advice& advice);
/// Whether one worker was looked at, and has not the memory.
bool one_does_not_hold_it(const Advice& advice);

/// A top choice that was run.
struct VerifiedPoint {
  std::size_t number = 0;          ///< among Advice::points
  std::string state, reason;       ///< of the run
  double median = 0, low = 0, high = 0;   ///< s; of its steps
  double error_pct = 0;            ///< predicted over measured
  bool inside = false;             ///< the measured median, in the predicted interval
};

/// The recommendation in a paragraph: what to take, by how much it is better than one worker and than plain `data`, the largest loss, what ties, and whether distributing is worth it.
std::string advice_words(const Advice& advice, std::int64_t batch);

/// What measuring the top choices says of it: whether their order held, how far off each was, and what to take then. Empty where none was run.
std::string verified_words(const Advice& advice, const std::vector<VerifiedPoint>& verified);

/// Number among Advice::points of plain `data` with the most workers that were asked for; -1: it was not predicted.
int plain_data(const Advice& advice);

}  // namespace ddl
