#pragma once

#include <vector>

namespace ddl {

/// Binds the calling thread and those that LibTorch computes with for it (at::get_num_threads(), this one among them): the n-th of them to the n-th processing unit alone.
/// Returns 0 or the system's error, after which some may be bound.
int bind_computing_threads(const std::vector<int>& units);
/// Lets each of them use all of `units`.
int release_computing_threads(const std::vector<int>& units);

}  // namespace ddl
