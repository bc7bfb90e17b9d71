#include "ddl/strategy/partition/partition.h"

namespace ddl {

double in_flight_of_1f1b(int stage, int stages) { return stages - stage; }

Registry<Partitioner> builtin_partitioners() {
  Registry<Partitioner> partitioners("partitioner");
  partitioners.add({"count", "equal numbers of layers", partition_by_count});
  partitioners.add({"flops", "the stage with the most floating-point operations has as few as can be", partition_by_flops});
  partitioners.add({"time", "the slowest stage is as fast as can be, by measured times of layers", partition_by_time});
  partitioners.add({"memory", "the stage that holds the most bytes holds as few as can be", partition_by_memory});
  partitioners.add({"pipedream", "stages and replicas of them for machines and their bandwidths (Narayanan et al. 2019)", partition_pipedream});
  return partitioners;
}

}  // namespace ddl
