#pragma once

#include "ddl/report/trace_view.h"

namespace ddl {

/// A row of a viewer: what stands in it nests, since viewers drop what does not without a word.
struct TraceLane {
  int rank = 0;
  int number = 0;  ///< among those of the rank, from 1; in the order in which they are to be shown
  std::string name;
};

struct Lanes {
  std::vector<TraceLane> lanes;
  std::vector<std::size_t> of_span;  ///< number among `lanes` of each of TraceView::spans
  std::vector<std::size_t> order;    ///< the spans by lane, then by begin, outer ones first
};

/// A lane per rank and stream. Where spans of the communication stream overlap, since queues run beside each other, it has a lane for what is
/// sent, and received, of each cargo, and one for each group's collectives. What still overlaps without nesting goes to further lanes.
Lanes lanes_of(const TraceView& view);

}  // namespace ddl
