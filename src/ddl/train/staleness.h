#pragma once

#include <cstdint>
#include <map>

namespace ddl {

/// How old the parameters were that gradients were computed with, which a server applied.
struct StalenessReport {
  std::int64_t updates = 0;
  std::int64_t largest_clocks = 0;   ///< steps that the slowest worker was behind, when the parameters were given
  double mean_clocks = 0;
  std::int64_t largest_updates = 0;  ///< updates by others between giving the parameters and applying their gradient
  double mean_updates = 0;
  std::map<std::int64_t, std::int64_t> by_clocks, by_updates;  ///< how many gradients were so stale, of all that were applied as they came
};

}  // namespace ddl
