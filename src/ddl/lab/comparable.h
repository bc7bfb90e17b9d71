#pragma once

#include <string>
#include <vector>

#include "ddl/lab/config.h"

namespace ddl {

/// The keys that say how a network is trained on a data set, number of workers and batch apart: what a comparison is of. The seed, the length of a
/// run and what is tuned with the batch (learning rate, optimizer, accumulation) are none.
const std::vector<std::string>& compared_keys();

/// What is compared runs at the same global batch: a larger one does more work in a step, is faster for that, and learns differently.
/// A way to train is a network and data set, a number and kind of workers, and the compared keys. Of one network and data set every way has to run at
/// the same batches: at one, or each at each of them. So strong scaling is fair, and so is a study of the batch that has every way at every batch;
/// weak scaling, whose batch grows with the workers, is not the same work and has to be asked for.
/// Errors: invalid_argument where two ways run at different batches, naming both, and where a batch was set that only one of them has.
void require_equal_batches(const std::vector<Experiment>& experiments);

}  // namespace ddl
