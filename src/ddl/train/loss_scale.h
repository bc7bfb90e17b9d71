#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace ddl {

/// What the loss is multiplied with before backward, so that gradients too small for fp16 are not lost: halved when a
/// gradient is not finite, doubled after 2,000 good steps in a row, unless it would no longer be finite itself.
///
/// LibTorch's _amp_update_scale_ moves it, with torch.amp.GradScaler's constants. Its three numbers stay on the processor whatever
/// the worker's device: every rank sees the same reduced gradients, so every rank draws the same conclusion on its own.
/// Source:  Micikevicius et al., Mixed Precision Training, ICLR 2018, section 3.2.
class LossScale {
 public:
  struct Rule {
    double initial = 65536, growth = 2, backoff = 0.5;
    std::int64_t interval = 2000;
  };
  explicit LossScale(Rule rule);
  LossScale(const LossScale&) = delete;  // a copy would move the same tensors
  LossScale& operator=(const LossScale&) = delete;

  double value() const;
  /// After each step: whether all its gradients were finite.
  void observe(bool finite);
  std::int64_t skipped() const { return skipped_; }

 private:
  Rule rule_;
  at::Tensor value_;          ///< fp32, as the operator has it
  at::Tensor good_;           ///< int32: steps in a row
  at::Tensor found_;          ///< fp32: 1 where something was not finite, else 0
  std::int64_t skipped_ = 0;  ///< steps whose gradients were not finite
};

}  // namespace ddl
