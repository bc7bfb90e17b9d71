#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ddl/collective/communicator.h"
#include "ddl/data/dataset.h"
#include "ddl/data/loader.h"
#include "ddl/nn/network.h"
#include "ddl/train/device.h"

namespace ddl {

struct Evaluation {
  bool complete = true;  ///< false: some worker asked to stop, and the rest says nothing
  double loss = 0;       ///< mean cross entropy, of samples or of words
  std::optional<double> top1 = {};    ///< fraction of samples whose largest logit is their label's
  std::optional<double> top5 = {};    ///< whose label is among the five largest; where there are more than five classes
  std::optional<double> tokens = {};  ///< fraction of words that are right, each after the right ones before it
  std::optional<double> bleu = {};    ///< 0 … 100, of what the network says by itself; of translation and captioning
};

/// Samples that run through the network at once at most.
inline constexpr std::int64_t kLargestEvaluationBatch = 250;

/// Samples to run through the network at once: as many as one worker's memory for a step of training holds anyway, or 256 MiB of what
/// backward would keep, at most kLargestEvaluationBatch. `training`: the most samples of a forward pass there.
std::int64_t evaluation_batch(const ModelGraph& graph, std::int64_t element_bytes, std::int64_t training);

struct EvaluateOptions {
  LoaderOptions loading = {};
  std::string precision = "fp32";  ///< as jobs name it
  /// Asked after each batch of this worker's; who is asked to stop leaves the rest out, and then all do.
  std::function<bool()> stop = {};
  std::function<void(std::int64_t done, std::int64_t of)> progress = {};
  std::int64_t batch = kLargestEvaluationBatch;  ///< samples at once
};

/// Runs the network over the whole data set, each worker a contiguous part of it, without gradients.
/// Batch norm uses running statistics; workers that kept statistics of their own batches take the mean of all for it, and go on with
/// their own.
/// Collective: every worker calls it; all get the same answer. `communicator` may be null for one worker.
Evaluation evaluate(Network& network, Device& device, const Dataset& dataset, Communicator* communicator, const EvaluateOptions& options);

}  // namespace ddl
