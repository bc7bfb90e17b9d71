#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/measure/timeline.h"

namespace ddl {

/// What a record's plan says of a task; empty, and -1, where it says nothing.
struct TaskView {
  std::string kind, cargo, group;
  int stage = -1;
  int micro_batch = -1;
  double bytes = -1;
  std::string goal = {};         ///< of collectives
  std::vector<int> after = {};   ///< tasks of the same role
};

/// A span of a record's trace. Words that this version does not know stay as they are in `stream` and `cause`; `span` then has the compute
/// stream, and residual.
struct TracedSpan {
  Span span;
  std::string stream, cause, name;
  TaskView task;
};

/// A record's trace, joined with its plan. Times are nanoseconds on the record's own scale.
struct TraceView {
  std::vector<TracedSpan> spans;
  /// When each rank's steps began and ended, by step and rank; of a record that does not say so, from its first span to its last.
  std::map<std::pair<int, int>, Period> steps;
  bool steps_told = false;

  bool empty() const { return spans.empty(); }
  std::vector<int> ranks() const;  ///< ascending
  /// Spans of one step, or of all where `step` is negative.
  Trace trace(int step = -1) const;
};

/// Entries that lack a time, or end before they begin, are left out; nothing throws.
TraceView view_trace(const Json& record);

/// One message: numbers among TraceView::spans of where it is sent and where it is received.
struct Flow {
  std::size_t send = 0;
  std::size_t receive = 0;
};

/// Messages whose both ends are in the trace, known by step and meeting. Collectives have none: all take part alike.
std::vector<Flow> flows(const TraceView& view);

/// The process of a rank, as viewers are to call it.
std::string rank_title(const Json& record, int rank);

}  // namespace ddl
