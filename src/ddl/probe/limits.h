#pragma once

#include <cstddef>
#include <span>

#include "ddl/collective/communicator.h"

namespace ddl {

// Bounds that no algorithm goes below, measured with nothing on top of them.

// Each is the least of `tries`. `fresh`: every rank writes `data` anew before each.
// Errors of all: those of Transport::exchange(), of a rank that does not come within `timeout` too.

/// Seconds in which every rank hands `data` to its right-hand neighbour, all at once, through the transport alone: no
/// schedule, no arithmetic. `into` is as large.
double exchange_limit(Communicator& group, std::span<std::byte> data, std::span<std::byte> into, bool fresh, int tries, Seconds timeout);

/// Seconds in which one rank hands `data` to another; rank 0 and 1 by turns. Negative on other ranks.
double one_way_limit(Communicator& group, std::span<std::byte> data, std::span<std::byte> into, bool fresh, int tries, Seconds timeout);

/// Seconds of an all-reduce where memory is shared and meetings cost nothing but looking: each rank sums its slice of all
/// ranks' buffers into all of them, between two barriers on words in that memory. `words`: memory of the transport, as large on
/// all ranks, that nobody else uses. Negative where memory is not shared.
double reduce_limit(Communicator& group, std::span<std::byte> data, std::span<std::byte> words, bool fresh, int tries, Seconds timeout);

}  // namespace ddl
