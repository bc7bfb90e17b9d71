#pragma once

#include <string>
#include <vector>

#include "ddl/strategy/builtin.h"
#include "ddl/strategy/pipeline/order.h"

namespace ddl {

/// Which forwards keep only what their stage was given, so that backward runs them again.
enum class Recompute { never, always, except_last };

/// A pipeline to be made a plan.
struct Pipeline {
  PipelineOrder order;            ///< may have stages of several workers, which take micro-batches in turn
  std::vector<int> cuts;          ///< first layer of each stage
  int micro_batches = 1;
  int replicas = 1;               ///< of each of the order's workers, with a part of the batch of its own; they stand together
  Recompute recompute = Recompute::never;
  std::vector<int> staleness = {};  ///< of asynchronous orders, by worker, which keeps one version of its weights more than that
  bool deferred_statistics = false;  ///< Plan's
  int shards = 1;                 ///< replicas, too, but of each parameter one keeps what the optimizer does: ZeRO 1
  /// Workers that compute each stage together and stand together, on each axis that its layers are split over; StrategyInput::graph is then the first one's part.
  std::vector<int> parts = {};
  std::string split = {};         ///< Plan's

  bool asynchronous() const { return !staleness.empty(); }
  int parts_of_stage() const {
    int all = 1;
    for (const int places : parts) all *= places;
    return all;
  }
  bool recomputes(int micro_batch) const {
    return recompute == Recompute::always || (recompute == Recompute::except_last && micro_batch + 1 < micro_batches);
  }
};

/// The plan of one step. Axes "pipeline", with a role for each of its places, then "data", then "sharded" and "tensor", where there are shards and parts;
/// of parts over several axes "tensor 1", "tensor 2", ….
///
/// Stages whose layers are split are cut again before every exchange between their parts that communicates (nn/split/split.h): such a segment is a stage of
/// the plan. The exchange is a collective between the compute tasks of two segments, of the first layer of the second.
///
/// A worker posts what it is to receive one task ahead of the one before it, so that the message comes while that computes, and no
/// more than one is held early. Sends do not hold up whoever sends. Messages from one worker to another are in one order on both sides, the
/// sender's.
///
/// Gradients of replicas are all-reduced in buckets as soon as the stage's last backward completes them, and with them those of which parts have summands;
/// those of parameters that several stages use, among all of these. With shards they are reduce-scattered among those first, and all-gathered once they
/// are updated. The same holds of the workers of a stage that has several (PipelineOrder::replicas): each is a role of its own, and sends a micro-batch
/// to, and takes it from, whoever has it in the other stage. In asynchronous plans gradients are added up when a step's last backward is over, and weights may not be tied
/// between stages, where they are of different ages. What everybody must know of everybody, `control`, is told in a collective of its own.
/// Errors: unsupported for an asynchronous order whose stages share a weight.
Plan pipeline_plan(const StrategyInput& input, const Pipeline& pipeline);

}  // namespace ddl
