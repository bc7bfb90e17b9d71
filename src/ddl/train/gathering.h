#pragma once

#include <cstdint>
#include <optional>

#include <ATen/ATen.h>

#include "ddl/nn/gradient_place.h"

namespace ddl {

/// The hook of a parameter whose gradients somebody gathers. A Gatherer has place(), arrived() and take() of a parameter, by number.
template <class Gatherer>
class GradientHook final : public GradientPlace {
 public:
  GradientHook(Gatherer& gatherer, int parameter) : gatherer_(gatherer), parameter_(parameter) {}
  /// There is no gradient where it was put in its place already.
  void operator()(const torch::autograd::Variable& leaf) override {
    if (auto& gradient = leaf.mutable_grad(); gradient.defined()) gatherer_.take(parameter_, gradient);
  }
  std::optional<Place> place() override { return gatherer_.place(parameter_); }
  void arrived(bool whole, std::int64_t widened) override { gatherer_.arrived(parameter_, whole, widened); }

 private:
  Gatherer& gatherer_;
  int parameter_;
};

/// Writes a gradient that autograd made, dense or rows of a table, to `place`; or, with `adds`, adds it to what is there. Returns how many bytes were written.
std::int64_t gather_gradient(const at::Tensor& gradient, at::Tensor& place, bool adds);

}  // namespace ddl
