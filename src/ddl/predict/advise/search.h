#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "ddl/strategy/choices.h"

namespace ddl {

/// What a candidate takes: seconds of a step, and bytes of the worker that holds most.
struct Worth {
  double seconds = 0;
  double bytes = 0;
  bool fits = true;  ///< in what memory there is
};

/// A value of each axis of a family.
struct Candidate {
  std::size_t family = 0;
  std::vector<std::size_t> at;
};

/// A candidate that was looked at; without a worth it cannot be planned.
struct Looked {
  Candidate candidate;
  std::optional<Worth> worth;
};

struct SearchResult {
  std::vector<Looked> looked;   ///< in the order in which they were
  double not_looked = 0;        ///< how many candidates more there are
};

/// Best-first: looks at where each family starts, then at all that is one step away (one axis, another value) from the best known, and so on. The best are those on the front of time and memory, the
/// fastest first; then others that fit by their time; every fourth time one that does not fit, the smallest. Goes on until all that can be reached was looked at, which is everything where each axis's
/// values are joined by steps, or until `go_on` says no. What cannot be planned is gone on from last.
/// Source: best-first search, Pearl, Heuristics, 1984, with the front of two objectives in front.
SearchResult search(const std::vector<StrategyFamily>& families, const std::function<std::optional<Worth>(const Candidate&)>& evaluate, const std::function<bool()>& go_on);

/// Numbers of those that fit and that no other beats in both time and memory, nor in one while equal in the other; the fastest first.
std::vector<std::size_t> pareto_front(const std::vector<Worth>& all);

}  // namespace ddl
