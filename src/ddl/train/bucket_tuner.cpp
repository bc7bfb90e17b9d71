#include "ddl/train/bucket_tuner.h"

#include <algorithm>
#include <span>
#include <utility>

#include "ddl/core/error.h"
#include "ddl/core/statistics.h"

namespace ddl {
namespace {

/// Steps of a turn, the first of which does not count: its buckets are new memory.
constexpr int kInATurn = 3;
/// There and back.
constexpr int kTurns = 2;
/// What a way that was faster by chance does not survive: faster in three of four of so many rounds' turns.
constexpr int kRounds = 4;
constexpr double kToStay = 0.5, kToBeTaken = 0.75;
/// Tuning may take a quarter of a run.
constexpr std::int64_t kWorthIt = 4;

}  // namespace

BucketTuner::BucketTuner(std::vector<Bucketing> ways, std::int64_t steps) : ways_(std::move(ways)), left_(steps / kWorthIt), by_turn_(ways_.size()) {
  invariant(!ways_.empty(), "the standard way to exchange gradients is among those that are tried");
  for (std::size_t i = 1; i < ways_.size(); ++i) racing_.push_back(i);
  begin_round();
}

/// Of those in the race and the standard one, if there are any and steps enough.
void BucketTuner::begin_round() {
  turns_.clear();
  round_.clear();
  std::vector<std::size_t> order{0};
  order.insert(order.end(), racing_.begin(), racing_.end());
  const auto takes = static_cast<std::int64_t>(order.size()) * kInATurn * kTurns;
  if (racing_.empty() || takes > left_ || rounds_ == kRounds) return;
  left_ -= takes;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (const auto way : order) turns_.insert(turns_.end(), kInATurn, way);
    std::reverse(order.begin(), order.end());
  }
}

void BucketTuner::add(double seconds) {
  invariant(tries() && !round_is_over(), "steps are told while some way is tried");
  round_.push_back(seconds);
}

/// Median over turns of what a step took, over the standard way's in the same turn.
double BucketTuner::against_standard(std::size_t way) const {
  std::vector<double> ratios;
  for (std::size_t turn = 0; turn < by_turn_[way].size(); ++turn) ratios.push_back(by_turn_[way][turn] / by_turn_[0][turn]);
  return median(ratios);
}

bool BucketTuner::in_front(std::size_t way, double of_turns) const {
  std::size_t faster = 0;
  for (std::size_t turn = 0; turn < by_turn_[way].size(); ++turn) faster += by_turn_[way][turn] < by_turn_[0][turn] ? 1 : 0;
  return static_cast<double>(faster) >= of_turns * static_cast<double>(by_turn_[way].size()) && against_standard(way) < 1 - kBetterBucket;
}

void BucketTuner::judge() {
  invariant(round_is_over(), "a round of trials is judged when it is over");
  for (std::size_t step = 0; step < turns_.size(); step += kInATurn)
    by_turn_[turns_[step]].push_back(median(std::span(round_).subspan(step + 1, kInATurn - 1)));
  spent_ += static_cast<std::int64_t>(turns_.size());
  ++rounds_;
  const auto leave = [&](double of_turns) { racing_.erase(std::remove_if(racing_.begin(), racing_.end(), [&](std::size_t way) { return !in_front(way, of_turns); }), racing_.end()); };
  leave(kToStay);
  begin_round();
  if (tries()) return;
  leave(kToBeTaken);
  const auto best = std::min_element(racing_.begin(), racing_.end(), [&](std::size_t a, std::size_t b) { return against_standard(a) < against_standard(b); });
  if (best != racing_.end()) taken_ = *best;
}

Json BucketTuner::json() const {
  Json sizes = Json::array();
  for (std::size_t i = 0; i < ways_.size(); ++i) {
    const auto& took = by_turn_[i];
    Json way{{"bytes", ways_[i].bytes}, {"overlap", ways_[i].overlap}, {"turns", took.size()}, {"step_ms", nullptr}, {"over_standard", nullptr}};
    if (!took.empty()) {
      way["step_ms"] = median(took) * 1e3;
      way["over_standard"] = against_standard(i);
    }
    sizes.push_back(std::move(way));
  }
  // Of a run that ended within a round: what its next step would have had, which the plan in its record has.
  return {{"steps", spent_ + static_cast<std::int64_t>(round_.size())}, {"sizes", sizes}, {"taken", way().bytes}, {"overlap", way().overlap}};
}

}  // namespace ddl
