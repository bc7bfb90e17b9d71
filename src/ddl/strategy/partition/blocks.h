#pragma once

#include <vector>

#include "ddl/strategy/partition/intervals.h"

namespace ddl {

/// The places 1 … size-1 in the order in which to do without cuts there: again and again the two neighbouring blocks that together take
/// the least time, less that of what crosses between them at `bandwidth`, become one; those of `wanted` are last.
std::vector<int> merging_order(const Intervals& layers, double bandwidth, const std::vector<int>& wanted);

/// Where stages of one worker each begin, but for the first, if time is all that counts besides `input.memory_limit`: without these cuts
/// blocks of unlike sizes may allow for no good partition into many stages, or for none that fits. In increasing order; if no partition
/// fits, they mean nothing.
std::vector<int> wanted_starts(const PartitionInput& input, const Intervals& layers, int stages);

/// The starts of the `blocks` blocks that are left when the first of `order` have been merged: those of fewer are among those of more.
std::vector<int> starts_of_blocks(const std::vector<int>& order, int blocks);

}  // namespace ddl
