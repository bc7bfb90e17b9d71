#pragma once

#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include "ddl/nn/graph.h"
#include "ddl/nn/operators/weighted_node.h"

namespace ddl {

/// What goes back through a convolution by ATen's backward, of whatever is widened or not before.
struct ConvolutionNode : WeightedNode {
  std::array<std::int64_t, 2> stride{};
  std::vector<std::int64_t> padding;
  std::int64_t groups = 1;

  /// Of maps, factor and bias what `wanted` says.
  std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& maps, const at::Tensor& by, std::array<bool, 3> wanted) const {
    return at::convolution_backward(gradient, maps, by, at::IntArrayRef(by.sizes()[0]), stride, padding, {1, 1}, false, {0, 0}, groups, wanted);
  }
};

/// `out`, made of these, with such a node behind it.
template <typename Own>
at::Tensor with_convolution_node(at::Tensor out, const at::Tensor& maps, const at::Tensor& weight, const at::Tensor& bias, const Attributes& of, at::IntArrayRef padding) {
  return with_node<Own>(std::move(out), maps, weight, bias, Sharing::others, false, [&](Own& node) {
    node.stride = {of.stride.height, of.stride.width};
    node.padding = padding.vec();
    node.groups = of.groups;
  });
}

}  // namespace ddl
