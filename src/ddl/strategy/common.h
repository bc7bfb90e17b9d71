#pragma once

#include <string>
#include <vector>

#include "ddl/core/error.h"
#include "ddl/plan/plan.h"
#include "ddl/strategy/builtin.h"

namespace ddl {

/// One role of `workers` along axis "data", each with the whole network: stages, roles and tasks of the network are filled in, nothing is exchanged.
Plan replicas(const StrategyInput& input);

/// The gradients of a whole network in buckets as the options `bucket` and `first-bucket` say, in StrategyInput::gradient_order; the last has the control
/// element. Source of the sizes: PyTorch's own (kDefaultFirstBucketBytes, kDefaultBucketBytesCap in c10d/reducer.hpp, 2.13): a small first bucket starts
/// communication early, the cap trades latency against overlap.
std::vector<Bucket> network_buckets(const StrategyInput& input);

/// What a strategy is with one worker, who has nobody to exchange anything with: that worker's step, under the strategy's name.
Plan alone(const StrategyInput& input);

/// PyTorch's cap, for whoever has no option of that name.
inline constexpr std::int64_t kBucketCap = std::int64_t{25} << 20;

/// Bytes of each parameter that trains.
std::vector<std::int64_t> parameter_bytes(const StrategyInput& input);
/// Whether the loss keeps the logits themselves, and makes their gradient alone (nn/operators/cross_entropy.h); else it keeps logarithms of probabilities, and makes its own gradient besides.
bool keeps_logits_alone(const StrategyInput& input);
/// StrategyInput::gradient_order, or what is assumed where it is not known.
std::vector<int> gradient_order(const StrategyInput& input);

/// Of so many bytes in so many parts of whole elements, those of the longest part.
std::int64_t longest_part(const StrategyInput& input, std::int64_t bytes, int parts);

/// What is held (with StrategyInput::recompute by one whose one stage is run again in segments) where gradients go to buckets, or to parts, as they come.
Holdings in_buckets(const StrategyInput& input, Holdings holds);

/// An option that is a whole number. Errors: invalid_argument unless it is one from `low` to `high`.
int whole_option(const Spec& spec, const std::string& name, int otherwise, int low, int high = 1'000'000'000);
/// What `parse` makes of an option's text, whose errors then say which option it is.
template <typename Parse>
auto unit_option(const Spec& spec, const std::string& name, const std::string& text, const Parse& parse) {
  try {
    return parse(text);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("[{}] {}: {}", spec.name, name, error.what()));
  }
}
/// An option that is a number of bytes. Errors: invalid_argument unless it is positive, and says its unit.
std::int64_t size_option(const Spec& spec, const std::string& name, std::int64_t otherwise);
/// An option that is one of some words, the first where it is not given. Errors: invalid_argument.
std::string word_option(const Spec& spec, const std::string& name, const std::vector<std::string>& words);

/// Parameters, gradients, the optimizer's state and kept activations of a whole network on one worker.
Holdings holdings(const StrategyInput& input);

}  // namespace ddl
