#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/data/dataset.h"
#include "ddl/data/loader.h"
#include "ddl/nn/network.h"
#include "ddl/train/device.h"

namespace ddl {

/// Some samples of a batch as a network takes them, and what its answers are measured against.
struct Example {
  NetworkInput input;
  at::Tensor expected;  ///< [n] labels, or [n, words]: what is to be said at each place of input.target, padded with kPadding
};

/// Some samples of a batch as data sets give them; what there is none of is undefined.
struct BatchPart {
  at::Tensor images = {};                  ///< [n, channels, height, width] fp32
  at::Tensor labels = {};                  ///< [n] int64
  at::Tensor source = {}, target = {};     ///< [n, words] int64
  at::Tensor draws = {};                   ///< Network::draws()
  std::vector<std::int64_t> samples = {};  ///< their numbers in the data set
  std::int64_t step = 0;
};

/// Samples [begin, end) of `batch`, in its own memory; with draws() where `device`, a network's, is not the host.
BatchPart part_of(const Batch& batch, const SampleShape& shape, std::int64_t begin, std::int64_t end, const Network& network, const Device& device);
/// The same on the device.
BatchPart upload(const BatchPart& part, Device& device);
/// The same into tensors of the device that are there, of as many samples.
void refill(BatchPart& to, const BatchPart& from, Device& device);
/// The same beside computation (Device::upload_beside()). Returns the moments between which it happens.
std::pair<Moment, Moment> upload_beside(BatchPart& to, const BatchPart& from, Device& device, const Moment& free);
/// Tensors of the device for as much; garbage.
BatchPart as_large_as(const BatchPart& part);
/// Within the device.
void copy(BatchPart& to, const BatchPart& from);
/// What a network makes of those.
Example example(const BatchPart& on_device, const SampleShape& shape, const Network& network);

/// Samples [begin, end) of `batch`, uploaded to the network's device. Images are given in the type of the network's parameters and in the
/// memory format it likes. Words: the network is given target words 0 … T-2 and is to say 1 … T-1 (teacher forcing).
/// Where nothing needs converting or uploading the tensors are the batch's own memory: keep it.
Example example(const Batch& batch, const SampleShape& shape, std::int64_t begin, std::int64_t end, Network& network, Device& device);

/// What an auxiliary head's loss counts: as in the training of Inception v3 that comes with torchvision.
inline constexpr double kAuxiliaryWeight = 0.4;

/// Cross entropy summed over samples, or over words other than padding: divided by what the samples of all workers count
/// (Batch::global_weight) it is the mean. Logits of fewer bits than fp32 are converted first. An auxiliary head's is added.
/// Label smoothing e: the right one of K classes is expected with 1 - e + e/K, each other with e/K.
/// Source:  Szegedy et al., Rethinking the Inception Architecture, CVPR 2016, section 7.
at::Tensor loss_sum(const NetworkOutput& output, const at::Tensor& expected, double label_smoothing, Kernels kernels = Kernels::torch);

/// Counts over samples or words, so that those of several workers add up.
struct Scores {
  double counted = 0;  ///< samples, or words other than padding
  double top1 = 0;     ///< whose largest logit is the right one
  double top5 = 0;     ///< whose right one is among the five largest logits
  double loss = 0;     ///< cross entropy, without smoothing
};

/// Adds up what `logits`, [n, classes] or [n, words, vocabulary], score, where they are: nothing is waited for before total().
class ScoreSum {
 public:
  void add(const at::Tensor& logits, const at::Tensor& expected);
  Scores total(Device& device) const;

 private:
  at::Tensor sums_;  ///< the fields of Scores, in order, fp64
};

}  // namespace ddl
