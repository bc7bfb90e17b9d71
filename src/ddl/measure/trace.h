#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ddl/measure/clock.h"

namespace ddl {

/// Where a moment of a worker's wall time goes: the lines of the ledger, in the order in which they are shown.
enum class Cause : std::uint8_t {
  load,           ///< blocked on the loader
  copy,           ///< moving data: host to device, gradients into buckets
  forward,
  backward,
  communication,  ///< exposed: the compute stream stands still while bytes move
  wait,           ///< exposed: the compute stream stands still because another worker is late
  bubble,         ///< a pipeline has no micro-batch for this stage: recorded, like communication, until a message is there
  update,         ///< the optimizer
  harness,        ///< ddlbench's own bookkeeping
  residual,       ///< what no span accounts for; computed, never recorded
};
inline constexpr std::size_t kCauses = 10;

std::string_view name(Cause cause);

/// What runs in order within one worker.
enum class Stream : std::uint8_t { compute, communication, loader, server };
inline constexpr std::size_t kStreams = 4;

std::string_view name(Stream stream);

/// One piece of work that happened (or, in a simulation, would have). `task` is its number in the plan, -1 for
/// work outside of it.
struct Span {
  Nanoseconds begin = 0;
  Nanoseconds end = 0;
  std::int32_t step = 0;
  std::int32_t task = -1;
  std::int16_t worker = 0;
  Stream stream = Stream::compute;
  Cause cause = Cause::residual;
  /// The same for the spans of all workers that take part in one collective or message of a step; 0: none.
  std::uint32_t meeting = 0;
};

/// What happened when. Real and simulated executions make the same type.
using Trace = std::vector<Span>;

}  // namespace ddl
