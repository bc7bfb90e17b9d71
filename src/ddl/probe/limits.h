#pragma once

#include <cstddef>
#include <span>

#include "ddl/collective/communicator.h"

namespace ddl {

// Bounds that no algorithm goes below, measured with nothing on top of them.

/// Seconds in which every rank hands `bytes` to its right-hand neighbour, all at once, through the transport alone: no
/// schedule, no arithmetic. The least of `tries`. `to` and `from` hold at least so many bytes each.
double exchange_limit(Communicator& group, std::span<const std::byte> from, std::span<std::byte> to, std::size_t bytes, int tries);

/// Seconds of an all-reduce where memory is shared and meetings cost nothing but looking: each rank sums its slice of all
/// ranks' buffers into all of them, between two barriers on words in that memory. The least of `tries`. `words`: memory of
/// the transport, as large on all ranks, that nobody else uses. Negative where memory is not shared.
double reduce_limit(Communicator& group, std::span<std::byte> data, std::span<std::byte> words, std::size_t bytes, int tries);

}  // namespace ddl
