#pragma once

#include <functional>

#include "ddl/core/registry.h"
#include "ddl/core/spec.h"
#include "ddl/plan/schedule.h"

namespace ddl {

/// One algorithm of one collective.
struct CollectiveAlgorithm {
  Goal goal = Goal::all_reduce;
  /// With the options that a user wrote; they are among those of `options`.
  std::function<Algorithm(const Spec& spec)> with;
  std::vector<std::string> options = {};

  /// With none.
  Schedule schedule(int rank, const CollectiveShape& shape) const { return with({})(rank, shape); }
};

/// Every algorithm there is: all-reduces by name, others as GOAL/NAME. The order is part of the wire format.
Registry<CollectiveAlgorithm> builtin_collectives();

/// An algorithm as users write it, made: its place in builtin_collectives() and what its options come to.
struct ChosenAlgorithm {
  int index = 0;
  Algorithm algorithm;
  std::size_t segment_bytes = 0;
  int options = 0;  ///< a digest of them, 12 bits, for ranks to compare; 0 without any
};
/// Errors: not_found with the nearest name, invalid_argument for an option that it does not have, or a bad value.
ChosenAlgorithm choose_algorithm(Goal goal, std::string_view text);

}  // namespace ddl
