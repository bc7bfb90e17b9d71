#include "ddl/strategy/partition/intervals.h"

namespace ddl {

/// Numbers of layers that differ by at most one; earlier stages have those that are left over. What layers cost is not looked at.
Partition partition_by_count(const PartitionInput& input) {
  const Intervals layers(input.costs);
  require_stages(input, layers.size());
  const int each = layers.size() / input.stages, more = layers.size() % input.stages;
  std::vector<int> starts{0};
  for (int stage = 1; stage < input.stages; ++stage) starts.push_back(starts.back() + each + (stage <= more ? 1 : 0));
  return layers.partition(starts, each + (more > 0 ? 1 : 0));
}

}  // namespace ddl
