#include "ddl/strategy/partition/intervals.h"
#include "ddl/strategy/partition/minimax.h"

namespace ddl {
namespace {

Partition balance(const PartitionInput& input, double (Intervals::*amount)(int, int) const) {
  const Intervals layers(input.costs);
  require_stages(input, layers.size());
  const auto split = minimise_largest(
      layers.size(), input.stages,
      [&](int stage, int first, int last) {
        const double here = (layers.*amount)(first, last) / (input.replicas.empty() ? 1 : input.replicas[static_cast<std::size_t>(stage)]);
        return StageCost{here, here};
      },
      [&](int place) { return layers.crossing_bytes(place); });
  return layers.partition(split.starts, split.largest);
}

}  // namespace

/// The largest stage's forward and backward time is the least possible; of such partitions, that whose cuts carry the fewest bytes.
Partition partition_by_time(const PartitionInput& input) { return balance(input, &Intervals::seconds); }

/// The same by FLOPs, measured times or not.
Partition partition_by_flops(const PartitionInput& input) { return balance(input, &Intervals::flops); }

}  // namespace ddl
