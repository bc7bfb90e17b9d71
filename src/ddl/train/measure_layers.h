#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ddl/core/units.h"
#include "ddl/data/dataset.h"
#include "ddl/nn/graph.h"
#include "ddl/train/job.h"

namespace ddl {

class Device;
struct NetworkOptions;

/// Errors: unsupported, told as of `who`, where a network is one file, of which nobody knows what its layers are.
void require_known_layers(const ModelGraph& graph, std::string_view who);

/// What each layer of a network takes for one micro-batch.
struct LayerSeconds {
  std::vector<double> forward, backward;  ///< seconds, by layer; of inputs 0
  std::int64_t samples = 0;               ///< of the micro-batch
  int sorts = 0;                          ///< layers that were run: those of one kind and the same shapes count as one
  double took = 0;                        ///< seconds, all of it
};

/// Runs each sort of layer by itself on `samples` samples, forward and backward: once to warm up, then up to five times, of which the median counts. What it is
/// given stays there and is no other layer's result, so that caches are warmer than in training.
/// Cost:    no more than `budget` but for one warm-up and one run of each sort; the memory of one layer.
/// Errors:  those of layers; unsupported for networks that are one file. Exchanges of parts of split networks take 0.
/// Source:  torchgpipe.balance.balance_by_time (Kim et al., torchgpipe: On-the-fly Pipeline Parallelism for Training Giant Models, 2020) times layers in the same
///          way, each by itself, again and again for so many seconds.
LayerSeconds measure_layers(const ModelGraph& graph, const NetworkOptions& options, Device& device, const std::string& precision, std::int64_t samples, Seconds budget);

/// By layer, the share of its backward that finds the gradient of what it was given, and not of its weights, as backward_input() and backward_weight() (split_backward.h) cut it: 1 where
/// there is no product with weights, 0 where nothing that it was given learns. Each sort of product is measured by itself.
/// Errors:  those of measure_layers().
std::vector<double> backward_input_shares(const ModelGraph& graph, const NetworkOptions& options, Device& device, const std::string& precision, std::int64_t samples, Seconds budget);

/// Whether a job's plan depends on what layers take: where it cuts the network by time.
bool cuts_by_time(const Job& job);

/// backward_input_shares() of a job's network and whole batch.
std::vector<double> shares_of_job(const Job& job, const SampleShape& shape, Seconds budget);

/// measure_layers() of a job's network and micro-batches, as its rank 0 computes. For a process of its own: it takes the job's threads and device.
LayerSeconds measure_job(const Job& job, const SampleShape& shape);

/// What the layers take of the part of a network that one worker computes.
struct PartSeconds {
  ModelGraph graph;                             ///< of the part
  std::vector<double> forward, backward;        ///< seconds, by its layers; of inputs and exchanges 0
  std::vector<double> input_shares;             ///< backward_input_shares() of it
};

/// Of a job that splits layers, by what the whole network's were found to take in training, `forward` and `backward`, with as many samples: the layers of both are run by themselves, and a product takes in training so many times what
/// that of the whole network takes there as it takes alone. Other layers, of which training does several in one pass, go by the ratio of their sums.
/// For a process of its own, as measure_job().
/// Errors:  those of measure_layers(); invalid_argument where the strategy splits no layers, or shares the batch.
PartSeconds measure_part(const Job& job, const SampleShape& shape, const std::vector<double>& forward, const std::vector<double>& backward, Seconds budget);

}  // namespace ddl
