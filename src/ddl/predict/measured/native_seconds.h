#pragma once

#include <cstdint>
#include <string>

#include "ddl/core/json.h"
#include "ddl/plan/schedule.h"

namespace ddl {

/// What is asked of a collective's time.
enum class Portion {
  whole,
  latency,  ///< what is left where bytes cost nothing
};

/// What a collective of the transport's own library takes between so many ranks, s, by what was measured of it (`native` of a communication part): along the line between neighbouring sizes. Nobody outside knows its rounds;
/// of another number of ranks than the part's, what an empty buffer would take goes by the doublings of ranks, as in a tree, and what bytes take by what links carry (bus_factor()).
/// `word`: as users write it; of `native[meet=off]`, which was not timed, `native` is taken. Errors: not_found where nothing was measured of either, naming the probe.
double native_seconds(const Json& part, Goal goal, const std::string& word, std::int64_t bytes, int ranks, Portion portion);

/// Whether the part has what native_seconds() goes by.
bool times_native(const Json& part, Goal goal, const std::string& word);

}  // namespace ddl
