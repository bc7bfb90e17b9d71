#pragma once

#include <string>

#include "ddl/collective/communicator.h"
#include "ddl/nn/network.h"
#include "ddl/plan/plan.h"
#include "ddl/train/device.h"

namespace ddl {

/// Which layers a worker's network has tensors for (NetworkOptions::layers); empty: all.
std::vector<bool> layers_of(const Plan& plan, int worker);

/// The first worker that holds each of `parameters` parameters.
std::vector<int> first_holders(const Plan& plan, int parameters);

/// Whether some worker lacks some stage, or part of a layer, so that none has the whole network.
bool is_in_parts(const Plan& plan);

/// Fills `whole`, on the same device as the worker's own network `part`, with the parameters of all workers and with their batch statistics, the
/// mean of those that several hold.
/// Collective: every worker calls it. Cost: the whole network's bytes from their holders to everyone.
void assemble(const Plan& plan, int worker, Network& part, Device& device, Communicator& communicator, Network& whole);

/// Fills `whole`, which may be `part` itself, with the mean of the parameters and batch statistics of replicas that have gone apart, each counting alike.
/// Collective: every worker calls it. The same bits on all.
void average_replicas(Network& part, Device& device, Communicator& communicator, Network& whole);

/// Of all parameters of the network `whole`: those that the worker holds as it holds them, others as their first holder does. Equal on all workers where replicas are.
/// Collective where the network is in parts; else `communicator` may be null. Parameters that are gathered when they are used are there (WholeParameters).
std::string parameters_digest(const Plan& plan, int worker, const ModelGraph& whole, Network& part, Device& device, Communicator* communicator);

}  // namespace ddl
