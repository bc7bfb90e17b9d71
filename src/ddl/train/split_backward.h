#pragma once

#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>

namespace ddl {

/// What of a backward pass is still to be done: edges of the graph of autograd, and the gradients that come in there.
struct LateGradients {
  torch::autograd::edge_list edges = {};
  torch::autograd::variable_list gradients = {};
};

/// The first part of a backward pass: from `roots`, where `gradients` come in, to the leaves `given`, whose grad() it adds to. No parameter
/// gets a gradient, no hook of one fires.
///
/// Matrix products and convolutions on the way to a given leaf compute the gradient of what they were fed, and keep what comes in for the
/// gradient of their weights. All else on the way runs as a whole: the gradients of its parameters (of batch and layer norm, of a table of positions) come
/// out of the same pass over memory as that of its input, and are kept, being small. What lies beside the way (an embedding that only
/// a later sum reads) is left for the second part. Where nothing given learns that is all.
///
/// Memory: what autograd kept is let go as soon as nothing needs it any more, as in a plain backward pass. There stay, for each product, what it was fed and the
/// gradient of what it made.
/// The graph is taken apart by this: the two parts are each run once, and nothing else backward through it.
/// Source:  Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 2, B and W.
LateGradients backward_input(torch::autograd::edge_list roots, torch::autograd::variable_list gradients, const std::vector<at::Tensor>& given);

/// The second part: adds to the gradients of all parameters, each completed, and its hooks fired, once.
void backward_weight(LateGradients late);

}  // namespace ddl
