#pragma once

#include <cstdint>
#include <optional>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>

namespace ddl {

/// A hook of a parameter, by whoever gathers its gradients in memory of his own. Where a layer's backward writes there itself, no gradient is made and copied: autograd then
/// calls the hook with none.
class GradientPlace : public torch::autograd::PostAccumulateGradHook {
 public:
  struct Place {
    at::Tensor gradient;  ///< with the parameter's sizes and strides
    bool adds;            ///< there is a gradient of other passes: add to it
  };
  /// Nothing where gradients go the usual way now.
  virtual std::optional<Place> place() = 0;
  /// After that: all of this pass's gradient is in its place; or, without `whole`, a summand of it is, and autograd hands on the others: when it has, it calls the hook with their sum. `widened`: bytes of it that were made in
  /// 16 bits elsewhere and written there from that.
  virtual void arrived(bool whole, std::int64_t widened) = 0;
};

}  // namespace ddl
