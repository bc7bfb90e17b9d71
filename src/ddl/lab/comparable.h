#pragma once

#include <vector>

#include "ddl/lab/config.h"

namespace ddl {

/// Ways to train, packages and strategies, compare at the same global batch alone: a larger one does more work at a time, is faster for that, and
/// learns differently.
/// Errors: invalid_argument where, of one network, data set and number of workers, two of them run with different batches, naming both, and where
///         the batch was set.
void require_equal_batches(const std::vector<Experiment>& experiments);

}  // namespace ddl
