#pragma once

#include "ddl/strategy/builtin.h"

namespace ddl {

/// What torch.nn.DataParallel does in a step, on threads of one process: worker 0 reads the batch and scatters it, gives its parameters to all, gathers what their forward made,
/// computes the loss of all of it, scatters its gradient, adds up the gradients of the parameters, and updates its own. Nobody else keeps anything from step to step.
/// With input.micro_batches the scatter, forward and backward are done so often, the rest once.
/// Options: bucket, first-bucket; overlap=off|on: gradients are added up after backward, as DataParallel does it, or while it runs; recompute=off|on.
/// Source:  torch/nn/parallel/data_parallel.py and replicate.py of PyTorch 2.13.
Plan replicas_of_one(const StrategyInput& input);

}  // namespace ddl
