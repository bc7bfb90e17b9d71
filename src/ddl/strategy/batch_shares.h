#pragma once

#include <cstdint>
#include <vector>

#include "ddl/core/spec.h"

namespace ddl {

/// Option `shares=3/1` of strategy `data`: in what proportions workers share the batch, one number for each; empty: all have the same, or the strategy has no such option.
/// Errors: invalid_argument for what is no positive number.
std::vector<std::int64_t> batch_shares(const Spec& strategy);

/// Samples of a global batch that share number `share` of so many has; where all have the same but for one sample, the most.
std::int64_t samples_of_share(const Spec& strategy, std::int64_t batch, int shares, int share);
/// The most that one has.
std::int64_t most_samples(const Spec& strategy, std::int64_t batch, int shares);

}  // namespace ddl
