#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/strategy/bucketing.h"

namespace ddl {

/// Finds how gradients are exchanged with which a run's own steps are fastest: races some ways against the first of them, the standard one. In a round each that is still in the race has two turns of some steps, there and back,
/// so that what changes meanwhile hits all alike. After each round those leave that were not faster than the standard one, by more than a hundredth at the median of turns and in half of them; of what is left at last the fastest is taken that was so in three quarters of its turns, or the standard one.
///
/// Every worker has one, and all take the same: what counts is the slowest worker of each step, which they tell each other once a round.
/// Threads: one caller.
class BucketTuner {
 public:
  /// `ways`: the first is the standard one. `steps`: that the run still has, a quarter of which may be spent; where one round would take more, nothing is tried.
  BucketTuner(std::vector<Bucketing> ways, std::int64_t steps);

  bool tries() const { return !turns_.empty(); }
  /// Of the next step while it tries, then what it took. Not when a round is over and was not judged.
  const Bucketing& way() const { return ways_[tries() ? turns_[round_.size()] : taken_]; }
  /// What the step that way took, seconds. After the last one of a round judge() is due.
  /// Errors: internal where none is tried.
  void add(double seconds);
  /// The step had another number of samples: it does not count, and its turn goes on.
  void skip() {
    ++spent_;
    --left_;
  }
  bool round_is_over() const { return tries() && round_.size() == turns_.size(); }
  /// Of the round's steps in their order, to be replaced by what the slowest worker of each took.
  std::vector<double>& round() { return round_; }
  /// Sends ways out of the race; begins another round, or takes the best. Errors: internal within a round.
  void judge();
  /// Steps that were spent; what each way took; which was taken. docs/record.md, "bucket_tuning".
  Json json() const;

 private:
  void begin_round();
  bool in_front(std::size_t way, double of_turns) const;
  double against_standard(std::size_t way) const;

  std::vector<Bucketing> ways_;
  std::int64_t left_;                         ///< steps that may still be spent
  std::int64_t spent_ = 0;                    ///< in rounds that were judged, and those that did not count
  int rounds_ = 0;
  std::vector<std::size_t> racing_;           ///< beside the first
  std::vector<std::size_t> turns_;            ///< of the round, by step: which way
  std::vector<double> round_;
  std::vector<std::vector<double>> by_turn_;  ///< by way: what a step took in each of its turns
  std::size_t taken_ = 0;
};

}  // namespace ddl
