#pragma once

#include <algorithm>
#include <cmath>

#include "ddl/lab/beyond.h"

namespace ddl {

/// Sizes up to half as large again go by what was measured.
inline constexpr double kAboutAsLarge = 0.585;

/// Of what is asked over the most that was measured; 0 where that is as much, or nothing is known.
inline double doublings_over(double asked, double most) { return most > 0 ? std::log2(std::max(1.0, asked / most)) : 0; }

/// What of a plan's messages, collectives and compressed buckets was not measured: sizes, numbers of ranks, memory that they lie in.
void beyond_exchanges(const Job& job, const Plan& plan, const ModelGraph& part, const JobCosts& costs, const Json& machine, Beyond& out);

}  // namespace ddl
