#pragma once

#include <string>
#include <vector>

#include "ddl/plan/plan.h"
#include "ddl/strategy/builtin.h"

namespace ddl {

/// load, then forward and backward of a whole network on one worker, for each micro-batch. The last is the backward that
/// completes the gradients.
std::vector<Task> compute_tasks(const StrategyInput& input);

/// One role of `workers` along axis "data", each with the whole network: stages, roles and tasks of the network are filled in, nothing is exchanged.
Plan replicas(const StrategyInput& input);

/// The gradients of a whole network in buckets as the options `bucket` and `first-bucket` say, in StrategyInput::gradient_order; the last has the control
/// element. Source of the sizes: PyTorch's own (kDefaultFirstBucketBytes, kDefaultBucketBytesCap in c10d/reducer.hpp, 2.13): a small first bucket starts
/// communication early, the cap trades latency against overlap.
std::vector<Bucket> network_buckets(const StrategyInput& input);

/// What a strategy is with one worker, who has nobody to exchange anything with: that worker's step, under the strategy's name.
Plan alone(const StrategyInput& input);

/// An option that is a whole number. Errors: invalid_argument unless it is one from `low` on.
int whole_option(const Spec& spec, const std::string& name, int otherwise, int low);
/// An option that is one of some words, the first where it is not given. Errors: invalid_argument.
std::string word_option(const Spec& spec, const std::string& name, const std::vector<std::string>& words);

/// Parameters, gradients, the optimizer's state and kept activations of a whole network on one worker.
Holdings holdings(const StrategyInput& input);

}  // namespace ddl
