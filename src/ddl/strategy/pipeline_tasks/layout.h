#pragma once

#include <cstdint>
#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/strategy/pass_memory.h"
#include "ddl/strategy/pipeline_tasks/pipeline_plan.h"

namespace ddl {

// The words of this folder. A *place* is one of the order's workers: a role of the plan, of replicas x shards x parts workers. Stages are the order's. A
// *segment* is a stage of the plan: a stage of the order or, where its layers are split, what lies between two exchanges of its parts.

/// What one segment makes and a later one reads.
struct SegmentCrossing {
  int from = 0, to = 0;                          ///< segments
  bool is_message = false;                       ///< they are at different places
  bool returns = false;                          ///< a gradient goes back
  std::int64_t bytes = 0, gradient_bytes = 0;    ///< of one micro-batch
};

/// A pipeline's network laid out over its places: who holds what, and what lies between. Nothing of it changes.
struct PipelineLayout {
  /// Both outlive it.
  PipelineLayout(const StrategyInput& input, const Pipeline& pipeline);

  const StrategyInput& input;
  const Pipeline& pipeline;
  NetworkMemory memory;
  std::int64_t samples;                             ///< of a micro-batch, at most
  std::vector<std::int64_t> parameter_bytes;        ///< by parameter
  std::vector<std::int64_t> value_bytes;            ///< by layer, of an element of what it makes, and of its gradient
  std::vector<Stage> segments;
  std::vector<int> stage_of_segment;
  std::vector<std::vector<int>> segments_of_stage;
  std::vector<std::vector<int>> stages_of_place;
  std::vector<SegmentCrossing> crossings;
  std::vector<std::vector<int>> into, out_of;       ///< numbers of crossings, by segment

  int places() const { return pipeline.order.workers(); }
  /// Who has a micro-batch in a segment.
  int place_of(int segment, int micro_batch) const;
  /// All that hold a stage, ascending: they take micro-batches in turn.
  std::vector<int> places_of(int stage) const;
  const std::vector<int>& stages_at(int place) const { return stages_of_place[static_cast<std::size_t>(place)]; }
  std::vector<int> segments_at(int place) const;
  /// That its segments use, each once, ascending.
  std::vector<int> parameters_at(int place) const;

  /// Whether something that the segment is given learns, so that a gradient goes back from it.
  bool gives_back(int segment) const;
  /// A pass of a stage as passes of its segments, in the order in which they are done: their `stage` is a segment.
  std::vector<Action> by_segment(const Action& action) const;
};

}  // namespace ddl
