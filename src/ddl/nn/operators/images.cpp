// Convolution, normalisation and pooling.
#include "ddl/nn/operators/operator.h"

namespace ddl {
namespace {

std::array<std::int64_t, 2> both(const Pair& pair) { return {pair.height, pair.width}; }

}  // namespace

at::Tensor convolve(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  return at::conv2d(c.inputs[0], c.own.parameters[0], c.own.parameters.size() > 1 ? c.own.parameters[1] : at::Tensor(), both(a.stride),
                    both(a.padding), 1, a.groups);
}

at::Tensor normalise_batch(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  return at::batch_norm(c.inputs[0], c.own.parameters[0], c.own.parameters[1], c.own.statistics[0], c.own.statistics[1],
                        c.training && !c.layer.frozen, a.momentum, a.epsilon, false);
}

at::Tensor normalise_layer(const OperatorContext& c) {
  return at::layer_norm(c.inputs[0], {c.layer.shape.back()}, c.own.parameters[0], c.own.parameters[1], c.layer.attributes.epsilon);
}

at::Tensor max_pool(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  return at::max_pool2d(c.inputs[0], both(a.kernel), both(a.stride), both(a.padding));
}

at::Tensor average_pool(const OperatorContext& c) {
  const auto& a = c.layer.attributes;
  return at::avg_pool2d(c.inputs[0], both(a.kernel), both(a.stride), both(a.padding), false, a.count_padding);
}

at::Tensor adaptive_average_pool(const OperatorContext& c) {
  return at::adaptive_avg_pool2d(c.inputs[0], {c.layer.shape[1], c.layer.shape[2]});
}

}  // namespace ddl
