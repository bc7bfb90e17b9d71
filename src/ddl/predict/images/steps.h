#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ddl/core/json.h"
#include "ddl/predict/images/networks.h"
#include "ddl/predict/images/roofline.h"

namespace ddl {

/// Data parallelism of a convolutional network. Seconds, samples, bytes/s.
struct ReplicaStep {
  const ImageOperators& network;
  const ImageRoofline& device;
  double batch = 1;            ///< of one device
  double alone = 0;            ///< one device without a package: forward, backward, update
  int devices = 1, per_node = 1;
  std::string update;          ///< how a package brings gradients together: what follows the / of its name
  bool nvlink = false;         ///< inside a node
  bool reads = false;          ///< data from storage, not made up
  double network_bandwidth = 0;  ///< of a node, each way; 0: the table does not say
  bool overlaps = true;        ///< gradients are exchanged beside backward; else after it, which price_horovod() alone knows

  int nodes() const { return (devices + per_node - 1) / per_node; }
};

/// A pipeline over stages of a network in sequential form.
struct FillDrainStep {
  const SequentialNetwork& network;
  const ImageRoofline& device;
  std::vector<int> stages;        ///< layers of each
  double micro_batch = 1, global_batch = 1;
  enum class Recompute { none, except_last, full } recompute = Recompute::none;
  double one_device_rate = 0, one_device_batch = 0;  ///< samples/s of the whole network on one device and the batch it was measured at; 0: not measured
};

/// Seconds of one step, term by term.
struct ImageSeconds {
  std::vector<std::pair<std::string, double>> terms = {};
  double stalls = 0, exposed = 0, uneven = 0;  ///< of the sum, what is hardest to tell: kernels that wait for each other, exchanges not hidden, a pipeline's idle time
  std::vector<std::string> notes = {};
  double total() const;
};

// In closed form, or by a queue of events that belong to one step: docs/validation.md. `stack`: a `ddlbench.stack/1` with "images" of that form. Errors: not_found for a term that it lacks.
ImageSeconds price_horovod(const ReplicaStep& step, const Json& stack);
ImageSeconds price_tensorflow(const ReplicaStep& step, const Json& stack);
ImageSeconds price_apex(const ReplicaStep& step, const Json& stack, const Json& machine);
/// Errors besides: invalid_argument for stages that are not all of the network.
ImageSeconds price_fill_drain(const FillDrainStep& step, const Json& stack);

}  // namespace ddl
