#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ddl/nn/network.h"
#include "ddl/train/device.h"

namespace ddl {

/// Says what may come next in each of some sentences, all of the same length so far.
class Speaker {
 public:
  virtual ~Speaker() = default;
  /// [n] words said last, kBegin to start with -> [n, vocabulary] of the next, which the caller may write over.
  virtual at::Tensor next_logits(const at::Tensor& last) = 0;
  /// Only these sentences go on, in this order: [m] numbers of the n.
  virtual void keep(const at::Tensor& sentences) = 0;
};

/// Sentences said greedily: at each place the likeliest word, until each has ended or is `longest` words long. Those that have ended are
/// left out before long.
/// Returns the words of each of `n` sentences, without begin and end. Padding and begin are never said.
std::vector<std::vector<std::int64_t>> decode_greedily(Speaker& speaker, std::int64_t n, std::int64_t longest, Device& device);

/// By a network whose objective is translation or captioning, for the samples of `input` (its target is not read): all
/// sentences at once. Ends after `target_length` - 2 words.
std::vector<std::vector<std::int64_t>> decode_greedily(Network& network, Device& device, const NetworkInput& input, int target_length);

}  // namespace ddl
