#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/ATen.h>

#include "ddl/nn/network.h"

namespace ddl {

/// Sentences said greedily: at each place the likeliest word, until each has ended or is `longest` words long.
/// `next_logits`: of [n, t] words said so far, the first of them kBegin, to [n, vocabulary] of the word after them.
/// Returns the words of each sentence, without begin and end. Padding and begin are never said.
std::vector<std::vector<std::int64_t>> decode_greedily(const std::function<at::Tensor(const at::Tensor& said)>& next_logits, std::int64_t n,
                                                       std::int64_t longest, at::Device device);

/// By a network whose objective is translation or captioning, for the samples of `input` (its target is not read): all
/// sentences at once. What does not depend on what was said is computed once, the rest for each further word. Ends after `target_length` - 2 words.
std::vector<std::vector<std::int64_t>> decode_greedily(Network& network, const NetworkInput& input, int target_length);

}  // namespace ddl
