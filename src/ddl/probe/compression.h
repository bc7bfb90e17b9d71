#pragma once

#include <cstddef>
#include <string>

#include "ddl/collective/communicator.h"
#include "ddl/core/units.h"

namespace ddl {

/// Seconds of an all-reduce of fp32 under a compression, and of the collectives that it is made of, by themselves: medians.
struct CompressionSeconds {
  double call = 0, collectives = 0;
  /// What a rank does beside them: compresses, takes apart, adds up, keeps what was left.
  double own() const { return call > collectives ? call - collectives : 0; }
};

/// Both by turns, so that drift hits both alike, each after a barrier and on a buffer that was just written, as backward leaves it; the group may be of one rank, which sends nothing. Elements are normal
/// numbers, which a step of training's are not, but no compression's time depends on that. Collective: all ranks of the group; what it tells is rank 0's.
/// Errors: those of CompressedAllReduce.
CompressionSeconds time_compression(Communicator& group, const std::string& compression, std::size_t bytes, Seconds budget);

}  // namespace ddl
