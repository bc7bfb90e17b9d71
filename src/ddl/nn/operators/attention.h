#pragma once

#include <ATen/ATen.h>

#include "ddl/nn/network.h"

namespace ddl {

/// What queries attend to, and how: scaled dot products (Vaswani et al., NeurIPS 2017, section 3.2.1), as projections make them, without bringing them into any other order.
struct Attended {
  at::Tensor queries;      ///< [n, places, features, …]: the first `features` of each place are queries; of keys and values too where `keys_values` is the same tensor, which they then follow
  at::Tensor keys_values;  ///< [n, seen, …]: after what is before `first` features keys, then values
  std::int64_t heads, features;
  bool causal;             ///< place i sees places 0 to i
  at::Tensor visible;      ///< bool [n, 1, 1, seen], or undefined: which are seen at all
};

/// Whether attend_by_blocks() is for it: fp32 or, under autocast, bf16 on a processor. Others are ATen's.
bool attends_by_blocks(const Attended& of, const NetworkOptions& options);

/// [n, places, features]: of each place and head, the mean of values by the softmax of scores. In blocks of places, whose scores stay in cache; what autograd keeps are the projections and a number for each place and head. Backward computes
/// scores again (Dao et al., FlashAttention, NeurIPS 2022) and makes the gradient of all projections of a tensor as one.
/// What is in bf16 is computed in fp32, head by head, and rounded at the end. Threads share heads: the same bits on any number of them.
/// Numbers: in fp32 within 2e-6 of the largest element, or four times as far off as ATen's (attention_test.cpp). Of a place that sees nothing, 0.
at::Tensor attend_by_blocks(const Attended& of);

}  // namespace ddl
