#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ddl/report/comparison.h"

namespace ddl {

/// How old the parameters were that gradients were computed with, all servers of parameters of a run together.
struct Staleness {
  using Counts = std::map<std::int64_t, std::int64_t>;  ///< gradients, by how stale they were

  int servers = 0;
  Counts by_updates;  ///< updates by others between the parameters and the gradient
  Counts by_steps;    ///< steps that the slowest worker was behind the parameters
};

/// Nothing of runs without servers that apply gradients as they come.
std::optional<Staleness> staleness_of(const RunView& run);

/// Of what lies from `first` to `last`.
struct StalenessShare {
  std::int64_t first = 0, last = 0;
  double share = 0;
};
/// In ranges that get longer by doubling (0, 1, 2, 3, 4 to 7, …), those that have something.
std::vector<StalenessShare> shares_of(const Staleness::Counts& counts);
/// "2", "4 to 7".
std::string in_words(const StalenessShare& range);

/// "async, 4 workers: of 400 gradients that 2 servers of parameters applied as they came, there lay between the parameters and the gradient 0 updates by others for 75.0 %, …"
std::string staleness_sentence(const RunView& run, const Staleness& staleness);

}  // namespace ddl
