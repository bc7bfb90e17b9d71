#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace ddl {

/// In how many samples each of some workers shares a batch so that all compute for about as long: `seconds` of a worker and its samples does not fall with samples. `most`: what each has room for; empty: any number.
/// Each has one at least. Adds up to the batch; empty where that cannot be.
std::vector<std::int64_t> balanced_batch(std::int64_t batch, int workers, const std::function<double(int worker, std::int64_t samples)>& seconds, const std::vector<std::int64_t>& most = {});

}  // namespace ddl
