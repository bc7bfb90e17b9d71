#pragma once

#include <cstdint>
#include <vector>

#include "ddl/strategy/partition/intervals.h"

namespace ddl {

/// PipeDream's recurrence (partition_pipedream) over given blocks of layers, for `stages` stages, or any number where that is 0.
class PipedreamSolver {
 public:
  /// A memory limit takes a number of stages: micro-batches in flight depend on it.
  PipedreamSolver(const PartitionInput& input, const Intervals& blocks, int stages);

  /// The best whose slowest stage is faster than `bound` seconds; without cuts where there is none.
  Partition solve(double bound);
  /// Splits looked at so far.
  std::int64_t operations() const { return operations_; }

 private:
  /// A^k(i→j, m) with q stages, and how it is reached.
  struct Cell {
    double seconds = 0;
    std::int16_t split = -1;   ///< the last stage begins here; -1: all is one stage at this level
    std::int16_t workers = 0;  ///< components of level k-1 that the last stage has
    std::int16_t stages = 0;   ///< that it consists of
  };
  struct Level {
    int count = 1;          ///< components of the level below, m at most
    int inner = 1;          ///< workers in each of those
    int most_stages = 0;    ///< of all these; 0: not counted
    double bandwidth = 0;
    double bound = 0;       ///< what takes as long or longer is of no use
    bool top = false;       ///< only runs from the first layer on are asked for
    std::vector<std::vector<Cell>> cells = {};  ///< by offset
  };

  bool free() const { return stages_ == 0; }
  int offset(int stage) const { return limited_ ? stage : 0; }
  Cell& cell(std::size_t level, int offset, int first, int last, int workers, int stages);
  double whole(std::size_t level, int stage, int first, int last, int stages);
  double stage_seconds(std::size_t level, int stage, int first, int last, int workers, int stages);
  void fill(std::size_t level, int stage);
  void find(std::size_t level, int stage, int first, int last, int workers, int stages);
  void collect(std::size_t level, int stage, int first, int last, int workers, int stages, int replicas, Partition& into);

  const PartitionInput& input_;
  const Intervals& blocks_;
  int stages_;
  bool limited_;
  std::vector<Level> levels_ = {};
  std::vector<double> edges_ = {};  ///< bytes of a micro-batch that cross before each block, both ways
  std::int64_t operations_ = 0;
};

}  // namespace ddl
