#include <algorithm>
#include <functional>

#include "ddl/strategy/partition/intervals.h"
#include "ddl/strategy/partition/minimax.h"

namespace ddl {
namespace {

Partition balance(const PartitionInput& input, double (Intervals::*amount)(int, int) const) {
  const Intervals layers(input.costs);
  require_stages(input, layers.size());
  const auto bytes = [&](int place) { return layers.crossing_bytes(place); };
  const auto& replicas = input.replicas;
  const bool alike = std::adjacent_find(replicas.begin(), replicas.end(), std::not_equal_to<>()) == replicas.end();
  const auto each = [&](std::size_t stage, int first, int last) { return (layers.*amount)(first, last) / (replicas.empty() ? 1 : replicas[stage]); };
  const auto split = alike ? minimise_largest_alike(layers.size(), input.stages, [&](int first, int last) { return each(0, first, last); }, bytes)
                           : minimise_largest(
                                 layers.size(), input.stages,
                                 [&](int stage, int first, int last) {
                                   const double here = each(static_cast<std::size_t>(stage), first, last);
                                   return StageCost{here, here};
                                 },
                                 bytes);
  return layers.partition(split.starts, split.largest);
}

}  // namespace

/// The largest stage's forward and backward time is the least possible; of such partitions, that whose cuts carry the fewest bytes.
Partition partition_by_time(const PartitionInput& input) { return balance(input, &Intervals::seconds); }

/// The same by FLOPs, measured times or not.
Partition partition_by_flops(const PartitionInput& input) { return balance(input, &Intervals::flops); }

}  // namespace ddl
