#pragma once

#include <atomic>
#include <cstddef>

#include "ddl/core/units.h"

namespace ddl {

/// Memory that processes of one host share, made before they are forked: where those of a probe meet, and tell each other a few numbers.
class Board {
 public:
  static constexpr std::size_t kNumbers = 8;

  /// For so many processes. Errors: io.
  explicit Board(int processes);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  int processes() const { return processes_; }
  /// Returns when all have come. Who is not there yet costs the others' cores little. Errors: timeout.
  void meet(Seconds timeout = {60});
  /// What one process writes before they meet the others read after it.
  std::atomic<double>& number(std::size_t which) { return shared_->numbers[which]; }

 private:
  struct Shared {
    std::atomic<int> there;
    std::atomic<int> round;
    std::atomic<double> numbers[kNumbers];
  };
  int processes_;
  Shared* shared_;
};

}  // namespace ddl
