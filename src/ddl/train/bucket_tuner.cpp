#include "ddl/train/bucket_tuner.h"

#include <algorithm>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/statistics.h"
#include "ddl/strategy/bucket_sizes.h"

namespace ddl {
namespace {

/// Steps with one size in a row, the first of which does not count: its buckets are new memory. And how often each has its turn.
constexpr int kInARow = 3, kTurns = 2;
/// Tuning may take a quarter of a run.
constexpr std::int64_t kWorthIt = 4;

}  // namespace

BucketTuner::BucketTuner(std::vector<std::int64_t> sizes, std::int64_t standard, std::int64_t steps) : sizes_(std::move(sizes)) {
  const auto found = std::find(sizes_.begin(), sizes_.end(), standard);
  invariant(found != sizes_.end(), "the standard size of buckets is among those that are tried");
  standard_ = taken_ = static_cast<std::size_t>(found - sizes_.begin());
  const auto count = static_cast<std::int64_t>(sizes_.size());
  if (count < 2 || steps < kWorthIt * count * kInARow * kTurns) return;
  for (int turn = 0; turn < kTurns; ++turn)
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      for (int step = 0; step < kInARow; ++step) {
        turns_.push_back(turn % 2 == 0 ? i : sizes_.size() - 1 - i);
        counts_.push_back(step > 0);
      }
}

void BucketTuner::add(double seconds) {
  invariant(tries(), "steps are told while sizes are tried");
  seconds_.push_back(seconds);
  ++next_;
}

std::vector<double>& BucketTuner::seconds() {
  invariant(!tries(), "all sizes were tried");
  return seconds_;
}

std::vector<double> BucketTuner::counted(std::size_t size) const {
  std::vector<double> found;
  for (std::size_t step = 0; step < seconds_.size(); ++step)
    if (turns_[step] == size && counts_[step]) found.push_back(seconds_[step]);
  return found;
}

void BucketTuner::settle() {
  if (seconds().empty()) return;
  double least = median(counted(standard_)) * (1 - kBetterBucket);
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (i == standard_) continue;
    if (const double took = median(counted(i)); took < least) {
      least = took;
      taken_ = i;
    }
  }
}

Json BucketTuner::json() const {
  Json sizes = Json::array();
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const auto found = counted(i);
    sizes.push_back({{"bytes", sizes_[i]}, {"step_ms", found.empty() ? Json(nullptr) : Json(median(found) * 1e3)}});
  }
  return {{"steps", seconds_.size()}, {"sizes", sizes}, {"taken", sizes_[taken_]}};
}

}  // namespace ddl
