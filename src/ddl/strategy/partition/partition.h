#pragma once

#include <functional>
#include <limits>
#include <string_view>
#include <vector>

#include "ddl/core/registry.h"
#include "ddl/strategy/partition/layer_costs.h"

namespace ddl {

/// A network's layers in stages of neighbouring ones.
struct Partition {
  std::vector<int> cuts = {};      ///< the first layer of each stage, increasing; the first is 0
  std::vector<int> replicas = {};  ///< workers of each stage, which share its samples
  double largest = 0;              ///< what was minimised: layers, FLOPs of a sample, seconds of a micro-batch, or bytes of a worker
};

/// Machines made of machines: `count` of the level below (workers, at the lowest), with `bandwidth` between any two.
struct MachineLevel {
  int count = 1;
  double bandwidth = 0;  ///< bytes per second
};

/// Micro-batches whose activations a stage keeps at once.
using InFlight = std::function<double(int stage, int stages)>;

/// That of 1F1B: as many as there are stages from this one on.
double in_flight_of_1f1b(int stage, int stages);

struct PartitionInput {
  const LayerCosts& costs;
  int stages = 0;                                ///< 0: as many as is best, of pipedream alone
  InFlight in_flight = in_flight_of_1f1b; ///< memory and pipedream
  // pipedream alone:
  std::vector<MachineLevel> machines = {};       ///< lowest level first; all workers are used
  double memory_limit = std::numeric_limits<double>::infinity();  ///< bytes per worker
  /// Exchanges of a replicated stage's gradients per micro-batch: 1 in PipeDream, 1/M where those of M are exchanged at once.
  double exchanges = 1;
  /// Workers of each stage, of flops and time alone: a stage then takes that part of what one worker would. Empty: one each.
  std::vector<int> replicas = {};
};

/// A pure function. Errors: invalid_argument for numbers of stages that do not fit, with those that would do.
using Partitioner = std::function<Partition(const PartitionInput&)>;

/// count, flops, time, memory, pipedream. A stage holds one layer or more, inputs not counted. It may hold nothing that trains or nothing
/// that costs: it then hands values on and has an optimizer with nothing to do, which is slow but sound, so that nobody is refused.
Registry<Partitioner> builtin_partitioners();

Partition partition_by_count(const PartitionInput& input);
Partition partition_by_flops(const PartitionInput& input);
Partition partition_by_time(const PartitionInput& input);
Partition partition_by_memory(const PartitionInput& input);
Partition partition_pipedream(const PartitionInput& input);

/// "3/5/2": stages of so many layers, inputs not counted; `largest` is the largest of them.
/// Errors: invalid_argument where a part is no whole number of at least 1, and where the sum is not the network's layers.
Partition parse_partition(std::string_view text, const LayerCosts& costs);

}  // namespace ddl
