#pragma once

#include <string>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/core/spec.h"
#include "ddl/lab/run.h"

namespace ddl {

/// A network as users write it, and the data set whose samples it is given, made up.
struct ProbedNetwork {
  std::string model, dataset;
};

/// What a strategy that splits layers leaves to each of so many workers.
struct ProbedPart {
  Spec strategy;
  int workers = 2;
};

/// What `probe compute` is to measure.
struct ComputeProbe {
  std::vector<ProbedNetwork> networks;
  std::vector<ProbedPart> parts;          ///< of each network, beside the whole one
  std::vector<std::int64_t> batches{1, 8, 32};
  std::vector<std::string> precisions{"fp32"};
  std::vector<std::string> optimizers{"sgd", "adam"};
  std::vector<std::string> compressions;  ///< of gradients; none: all there are, as they are usually
  std::string kernels = "fast";
  std::string device = "cpu";             ///< or "cuda": networks on the first GPU, companies on one each
  int threads = 1;
  Seconds budget{1};  ///< for each measurement
};

/// Small networks that have every kind of layer which networks of ours have, but for the LSTM.
std::vector<ProbedNetwork> usual_probed_networks();
/// The data set that a network is for; of `datasets`, the first whose samples it takes. Errors: those of the model and the data sets; invalid_argument where none fits.
ProbedNetwork probed_network(const std::string& model, const std::vector<std::string>& datasets);

/// Measures it in processes of its own, one after the other, and returns `ddlbench.probe/1` of kind compute (docs/machine.md). `state`: ok, partial (`failed` says what was not measured, and
/// why), failed, or interrupted, with what was complete.
/// Errors: invalid_argument, not_found for what cannot be asked.
Json probe_compute(const ComputeProbe& probe, const RunEvents& events);

/// `probe memory`: of all that, the bandwidth of memory and what workers at once lose to each other on it. Kind memory. Of `probe`, device, threads and budget count.
Json probe_memory(ComputeProbe probe, const RunEvents& events);

/// Puts what either document says into a machine profile: each entry takes the place of an earlier one of the same.
void add_compute_to_machine(Json& machine, const Json& document);

}  // namespace ddl
