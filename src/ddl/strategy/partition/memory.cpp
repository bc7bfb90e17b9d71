#include "ddl/strategy/partition/intervals.h"
#include "ddl/strategy/partition/minimax.h"

namespace ddl {

/// The most bytes that a stage holds are the fewest possible: what it trains with gradients and the optimizer's tensors, what is frozen, and
/// of each micro-batch in flight at that stage what backward needs and what came in. A tied parameter counts in every stage that uses it.
/// With 1F1B earlier stages keep more micro-batches and so get fewer layers. Ties as partition_by_time.
Partition partition_by_memory(const PartitionInput& input) {
  const Intervals layers(input.costs);
  require_stages(input, layers.size());
  std::vector<double> in_flight;
  for (int stage = 0; stage < input.stages; ++stage) in_flight.push_back(input.in_flight(stage, input.stages));
  const auto split = minimise_largest(
      layers.size(), input.stages,
      [&](int stage, int first, int last) {
        const double kept = in_flight[static_cast<std::size_t>(stage)];
        // What comes in may shrink as a stage grows; the rest cannot.
        return StageCost{layers.held_bytes(first, last, kept), layers.own_bytes(first, last, kept)};
      },
      [&](int place) { return layers.crossing_bytes(place); });
  return layers.partition(split.starts, split.largest);
}

}  // namespace ddl
