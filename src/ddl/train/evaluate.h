#pragma once

#include <functional>

#include "ddl/collective/communicator.h"
#include "ddl/data/dataset.h"
#include "ddl/data/loader.h"
#include "ddl/nn/network.h"

namespace ddl {

struct Evaluation {
  bool complete = true;  ///< false: some worker asked to stop, and the rest says nothing
  double top1 = 0;  ///< fraction of samples whose largest logit is their label's
  double loss = 0;  ///< mean cross entropy
};

/// Runs the network over the whole data set, each worker a contiguous part of it, without gradients.
/// Batch norm uses running statistics; workers that kept statistics of their own batches take the mean of all for it, and go on with
/// their own.
/// `stop` is asked, and `progress` told, after each batch of this worker's; who is asked to stop leaves the rest out, and then
/// all do.
/// Collective: every worker calls it; all get the same answer. `communicator` may be null for one worker.
Evaluation evaluate(Network& network, const Dataset& dataset, Communicator* communicator, LoaderOptions loading,
                    const std::function<bool()>& stop = {}, const std::function<void(std::int64_t done, std::int64_t of)>& progress = {});

}  // namespace ddl
