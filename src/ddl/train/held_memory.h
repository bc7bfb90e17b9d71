#pragma once

#include <cstdint>

#include "ddl/core/json.h"

namespace ddl {

/// Whether a worker's process goes on taking memory while it trains: what tensors have of the system, step by step, and what malloc has given out, at half of the steps and after the last.
/// Costs a lock a step, and twice a walk through malloc's lists.
/// Threads: one, the worker's.
class HeldMemory {
 public:
  /// `steps`: how many there will be.
  explicit HeldMemory(std::int64_t steps) : steps_(steps) {}

  void after_step(std::int64_t step);
  /// {held, held_middle, held_since_step, held_steps, heap_middle, heap_end} as records have it (docs/record.md).
  Json json() const;

 private:
  std::int64_t steps_;
  std::int64_t held_ = 0;
  std::int64_t since_ = 0, asked_ = 0;  ///< the last step that asked the system for more, and how many did
  std::int64_t held_middle_ = -1, heap_middle_ = -1, heap_end_ = -1;  ///< -1: not there yet
};

/// Bytes that malloc has given out and not got back, in this process. Blocks that a thread keeps for itself count as given out.
std::int64_t heap_in_use();

}  // namespace ddl
