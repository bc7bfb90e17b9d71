#pragma once

#include "ddl/collective/communicator.h"

namespace ddl {

/// Whether a reduce step is the last to change its range on its rank: what it leaves is then the result.
enum class Final : std::uint8_t { no, partly, yes };

/// A schedule, and for each of its steps what execution must know of the rounds that follow.
struct Prepared {
  Schedule schedule;
  std::vector<std::vector<Final>> finals;  // by round and step; `no` for what is not a reduce step
};

Prepared prepare(Schedule schedule);

/// Runs one rank's schedule on its buffer. An average divides in its final reduce steps: each element once, on the
/// rank that completes it, before it is passed on.
/// Errors: those of Transport::exchange(); unsupported for an average whose final steps are final only in part.
void execute(const Prepared& prepared, const Buffer& buffer, ReduceOp op, Transport& transport, Nanoseconds deadline);

}  // namespace ddl
