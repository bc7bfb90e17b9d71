#pragma once

#include <optional>
#include <vector>

#include "ddl/core/element.h"
#include "ddl/plan/schedule.h"

namespace ddl {

/// A yes or no about every element of a range.
enum class Extent : std::uint8_t { none, partly, whole };

/// What execution must know of a step that its own words do not say.
struct StepFacts {
  /// Whether what it leaves is a part of the rank's result: then an average divides here.
  Extent final = Extent::none;
  /// Whether the range (of send, reduce, combine) still is this rank's own input: then a weighted sum weights it here.
  Extent raw = Extent::none;
};

/// A schedule in which each rank reduces one slice of all ranks' buffers and then takes the others' slices: where memory
/// is shared, that is one pass between two meetings of all.
struct OneShot {
  Range mine;
  std::vector<int> order;  ///< in which the ranks' elements are reduced
};

struct Prepared {
  Schedule schedule;
  std::vector<std::vector<StepFacts>> facts;  ///< by round and step
  std::vector<Range> untouched;               ///< of the rank's result: still its own input at the end
  std::optional<OneShot> one_shot;
  std::size_t sent = 0;  ///< elements
  std::size_t received = 0;
};

Prepared prepare(Schedule schedule, Goal goal, int root);

}  // namespace ddl
