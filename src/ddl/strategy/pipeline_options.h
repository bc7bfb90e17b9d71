#pragma once

#include <string>
#include <vector>

#include "ddl/strategy/builtin.h"
#include "ddl/strategy/partition/partition.h"
#include "ddl/strategy/pipeline_tasks/pipeline_plan.h"

namespace ddl {

// What the options of strategies that cut the network into stages say: where to cut, with how many workers to a stage.

std::string text_option(const Spec& spec, const std::string& key, const std::string& otherwise);
/// StrategyInput::recompute is always or never, where nobody says which.
Recompute recompute_option(const StrategyInput& input, const std::vector<std::string>& words = {"never", "always", "except-last"});

/// `replicas=2/1`: the workers of each stage. Empty where there is none. Errors: invalid_argument unless each is 1 or more, and all together are
/// the workers.
std::vector<int> replicas_option(const StrategyInput& input);

/// `machines=4/2,bandwidth=80Gbps/10Gbps`, of balance=pipedream: levels of machines, the lowest first; bandwidth alone is between any two workers.
/// Errors: invalid_argument unless there is one of both for each level, and all together are the workers.
std::vector<MachineLevel> machines_option(const StrategyInput& input);

/// Errors: invalid_argument where there are more stages than the network has layers, with what would do for a schedule that takes `least_chunks` or more.
void require_layers(const StrategyInput& input, const PipelineShape& shape, int least_chunks);

/// Of a network that goes through so many stages in micro-batches of so many samples: measured times where the input has them, else FLOPs by `flops_per_second`.
/// Errors: the partitioner's, before an order of as many passes is written.
LayerCosts costs_of(const StrategyInput& input, int stages, std::int64_t samples, double flops_per_second = 1);

/// Stages as the options say: `stages=3/5/2` outright, or so many by `balance`. Errors: the partitioner's; invalid_argument for balance=pipedream, which
/// says how many.
std::vector<int> cut(const StrategyInput& input, const PartitionInput& wanted);

/// Whether balance=pipedream says how many stages there are, and of how many workers each: no other option does.
bool finds_replicas(const Spec& spec);

}  // namespace ddl
